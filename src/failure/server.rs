//! The reference server that a failure was found in, with simpler faults.

use reference::{Planted, ServerSetup, When};

/// The chance at which a fault is committed that happens once, and later than at the first one: a failure with fewer chances
/// does not meet it.
pub(crate) fn late_fault(server: &ServerSetup) -> Option<Planted> {
    server.fault.iter().copied().find(|fault| matches!(fault.when, When::Once(chance) if chance > 1))
}

/// The server with one fault left out of several, or with one that happens once happening at an earlier chance: the first, the
/// second, the fourth, and so on. What is simplest comes first.
pub(super) fn simpler(server: &ServerSetup) -> Vec<ServerSetup> {
    let faults = &server.fault;
    let without = |left_out: usize| {
        let others = faults.iter().enumerate().filter(|(place, _)| *place != left_out);
        ServerSetup { fault: others.map(|(_, fault)| *fault).collect(), ..server.clone() }
    };
    let with = |place: usize, fault: Planted| {
        let mut server = server.clone();
        server.fault[place] = fault;
        server
    };
    let places = if faults.len() > 1 { 0..faults.len() } else { 0..0 };
    let mut found: Vec<_> = places.map(without).collect();
    for (place, &Planted { fault, when }) in faults.iter().enumerate() {
        let When::Once(chance) = when else { continue };
        let earlier = std::iter::successors(Some(1), |chance: &u64| chance.checked_mul(2));
        let earlier = earlier.take_while(|earlier| *earlier < chance);
        found.extend(earlier.map(|earlier| with(place, Planted::once(fault, earlier))));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(faults: &[&str]) -> ServerSetup {
        let fault = faults.iter().map(|fault| fault.parse().expect("a fault")).collect();
        ServerSetup { instances: 2, fault, ..ServerSetup::default() }
    }

    #[test]
    fn of_several_faults_one_is_left_out_and_one_that_happens_once_happens_earlier() {
        let one = server(&["keep-state:once@5"]);
        let earlier = [1, 2, 4].map(|chance| server(&[&format!("keep-state:once@{chance}")]));
        assert_eq!(simpler(&one), earlier);
        assert_eq!(late_fault(&one).map(|fault| fault.to_string()), Some("keep-state:once@5".to_owned()));
        let two = server(&["crash", "skip-step:once@2"]);
        let smaller = [&["skip-step:once@2"][..], &["crash"], &["crash", "skip-step:once@1"]];
        assert_eq!(simpler(&two), smaller.map(server));
    }

    #[test]
    fn what_cannot_be_simpler_is_not() {
        for faults in [&[][..], &["crash"], &["crash:once@1"], &["crash:0.5"]] {
            let server = server(faults);
            assert_eq!((simpler(&server), late_fault(&server)), (Vec::new(), None), "{faults:?}");
        }
    }
}
