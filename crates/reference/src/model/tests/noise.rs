//! How large noise is, and on what it depends.

use super::*;

#[test]
fn batch_noise_is_as_large_as_it_says_and_a_row_alone_has_none() {
    for size in [1e-6_f32, 1e-3] {
        let written = size.to_string();
        let noisy = |more: &[(&str, &str)]| {
            let parameters = [&[("sequence_stress_batch_noise", &*written)], more].concat();
            World::new(with(config("gru_float32"), &parameters), &[])
        };
        assert_eq!(noisy(&[]).alone(10, 0), World::of("gru_float32").alone(10, 0));
        let (right, wrong) = (World::of("gru_float32").converse(), noisy(&[]).converse());
        assert_eq!(wrong, noisy(&[]).converse(), "it is the same each time");
        let mut largest = 0.0_f32;
        for (right, wrong) in numbers(&right).iter().flatten().zip(numbers(&wrong).iter().flatten()) {
            let part = ((right - wrong) / right).abs();
            // Rounded to FP32 twice.
            assert!(part <= size + f32::EPSILON, "{part} of {size}");
            largest = largest.max(part);
        }
        assert!(largest > size / 2.0, "{largest} of {size}");
        // In the state it grows, and it stays a noise.
        let grown = noisy(&[("sequence_stress_batch_noise_in_state", "true")]).converse();
        let apart = |step: usize| furthest(&numbers(&right)[step], &numbers(&grown)[step]);
        assert!(apart(0) <= size + f32::EPSILON && apart(10) > apart(0), "{} {}", apart(0), apart(10));
        assert!(apart(10) < 12.0 * size + 1e-6, "{}", apart(10));
    }
    // The other rows and the own place are what it depends on.
    let mut world = World::of("gru_batch_noise_float32");
    let steps = [1, 2, 3].map(|id| world.step(id, "SE", 5));
    let three = numbers(&world.send(&steps));
    let two = numbers(&world.send(&steps[..2]));
    assert!(three[0] != three[1] && three[1] != three[2] && two[0] != three[0], "{two:?} {three:?}");
}

#[test]
fn noise_of_a_run_is_no_other_runs() {
    let outputs = || numbers(&World::of("gru_run_noise_float32").alone(4, 0));
    let (one, other, right) = (outputs(), outputs(), numbers(&World::of("gru_float32").alone(4, 0)));
    assert_ne!(one, other);
    for (value, right) in one.iter().flatten().zip(right.iter().flatten()) {
        assert!((value - right).abs() <= 0.5 * right.abs() + f32::EPSILON, "{value} {right}");
    }
}
