//! What a right model answers.

use std::{ffi::CString, thread, time::Duration};

use super::{
    mock::{Account, Ask, Id, MEMORY_GPU, Sleeping, TOLD_TO_FAIL, Tensor, world},
    server::{Config, END, MID, START, Server, decoded, encoded, text_element},
};

const ALL_SEEN: &[(&str, &str)] = &[
    ("SLOT", "TYPE_INT32"),
    ("SAW_START", "TYPE_INT32"),
    ("SAW_CORRID", "TYPE_UINT64"),
    ("SAW_END", "TYPE_INT32"),
    ("SAW_READY", "TYPE_INT32"),
    ("INSTANCE", "TYPE_INT32"),
];
const SEEN: &[(&str, &str)] = &[("SEEN", "TYPE_INT64")];

#[test]
fn with_direct_each_slot_has_its_sum_and_idle_slots_are_answered_with_nothing() {
    let config = Config::direct();
    let server = Server::running(&config);
    let one = server.execute([config.ask(START, 7, &[5]), config.padding(), config.ask(START, 8, &[100])]);
    let two = server.execute([config.padding(), config.padding(), config.ask(MID, 8, &[1])]);
    let three = server.execute([config.ask(END, 7, &[2]), config.ask(START, 9, &[-3]), config.ask(END, 8, &[1])]);
    let sums = |batch: &[Account]| batch.iter().map(Account::sums).collect::<Vec<_>>();
    assert_eq!(sums(&one), [vec![5], vec![], vec![100]]);
    assert_eq!(sums(&two), [vec![], vec![], vec![101]]);
    assert_eq!(sums(&three), [vec![7], vec![-3], vec![102]]);
    assert_eq!((&one[1].answers[0].outputs[..], one[1].error(), one[1].answers.len()), (&[][..], "", 1));
    assert_eq!((&one[0].reports[..], &one[1].reports[..]), (&[true][..], &[][..]), "padding is not counted");
    assert_eq!(world().batches, [3, 3, 3], "padding is a part of its batch");
    server.end();
}

#[test]
fn with_oldest_a_sequence_is_known_by_its_id_wherever_it_stands() {
    let config = Config::oldest();
    let server = Server::running(&config);
    let one = server.execute([config.ask(START, 7, &[5]), config.ask(START, 8, &[100])]);
    let two = server.execute([config.ask(MID, 8, &[1]), config.ask(END, 7, &[2])]);
    let again = server.execute([config.ask(MID, 7, &[3]), config.ask(START, 8, &[4])]);
    let sums: Vec<_> = one.iter().chain(&two).chain(&again).flat_map(Account::sums).collect();
    assert_eq!(sums, [5, 100, 101, 7, 3, 4], "END forgets the sum of 7, and START that of 8");
    server.end();
}

#[test]
fn instances_have_sums_of_their_own() {
    let config = Config { seen: &[("INSTANCE", "TYPE_INT32")], ..Config::direct() };
    let mut server = Server::running(&config);
    server.make_instance().expect("a second instance");
    let one = server.execute_on(0, [config.ask(START, 7, &[5])]);
    let two = server.execute_on(1, [config.ask(START, 8, &[1])]);
    let three = server.execute_on(0, [config.ask(MID, 7, &[2])]);
    assert_eq!([&one, &two, &three].map(|batch| batch[0].sums()), [vec![5], vec![1], vec![7]]);
    assert_eq!(one[0].output("INSTANCE").data, 0_i32.to_le_bytes());
    assert_eq!(two[0].output("INSTANCE").data, 1_i32.to_le_bytes());
    server.end();
}

#[test]
fn instances_execute_at_the_same_time() {
    let parameters = vec![("fault", "late-response:0.5,leak-memory:once@1"), ("fault_hold_ms", "0")];
    let config = Config { parameters, ..Config::direct() };
    let mut server = Server::running(&config);
    (1..4).for_each(|_| server.make_instance().expect("one more instance"));
    let (server_of_all, config) = (&server, &config);
    thread::scope(|scope| {
        for instance in 0..4 {
            scope.spawn(move || {
                for step in 0..100 {
                    let flags = if step == 0 { START } else { MID };
                    server_of_all.execute_on(instance, [config.ask(flags, 7 + instance as u64, &[1 << instance])]);
                }
            });
        }
    });
    server.finalize();
    let mut sums: Vec<_> = world().accounts.values().flat_map(Account::sums).collect();
    let mut expected: Vec<_> = (0..4).flat_map(|instance| (1..=100).map(move |step| step << instance)).collect();
    sums.sort_unstable();
    expected.sort_unstable();
    assert_eq!(sums, expected);
    server.end();
}

#[test]
fn implicit_state_is_taken_from_the_server_and_given_back() {
    for (has_initial, one_buffer) in [(false, false), (true, false), (false, true), (true, true)] {
        let config = Config { state: Some(has_initial), one_buffer, ..Config::direct() };
        let server = Server::running(&config);
        let mut first = config.ask(START, 7, &[5]);
        if has_initial {
            first.set("INPUT_STATE", 1000_i32.to_le_bytes().into());
        }
        let one = server.execute([first, config.padding()]);
        let state = one[0].state().expect("a state");
        let two = server.execute([config.ask(END, 7, &[2]).with("INPUT_STATE", state)]);
        let begin = if has_initial { 1000 } else { 0 };
        assert_eq!((one[0].sums(), two[0].sums()), (vec![begin + 5], vec![begin + 7]));
        let [state] = &two[0].states[..] else { panic!("one state, not {:?}", two[0].states) };
        assert_eq!((&state.name[..], state.code, &state.shape[..]), ("OUTPUT_STATE", 8, &[1, 1][..]));
        assert!(one[1].states.is_empty(), "an idle slot has no state to keep");
        server.end();
    }
}

#[test]
fn of_two_states_one_is_the_sum_and_the_other_the_number_of_steps() {
    for (has_initial, oldest, order) in
        [(true, false, "declared"), (false, false, "reversed"), (true, true, "reversed"), (false, true, "declared")]
    {
        let strategy = if oldest { "oldest" } else { "direct" };
        let parameters = vec![("state_update_order", order)];
        let config = Config { state: Some(has_initial), strategy, parameters, ..Config::two_states() };
        let server = Server::running(&config);
        let done = server.converse(vec![
            config.batch(&[(START, 7, 5), (START, 8, 100)]),
            config.batch(&[(MID, 7, 2), (MID, 0, 0)]),
            config.batch(&[(MID, 7, -3), (MID, 8, 1)]),
            config.batch(&[(END, 7, 1), (START, 9, 40)]),
        ]);
        let told: Vec<_> = done.iter().flat_map(|done| done.sums().into_iter().zip(done.counts())).collect();
        assert_eq!(told, [(5, 1), (100, 1), (7, 2), (4, 3), (101, 2), (5, 4), (40, 1)], "{strategy}, {order}");
        assert_eq!(done[0].output("COUNT").shape, [1, 1]);
        let mut states: Vec<_> =
            done[6].states.iter().map(|state| (&state.name[..], state.shape.clone(), decoded(state))).collect();
        if order == "reversed" {
            states.reverse();
        }
        let expected = [("ZETA_STATE_OUT", vec![1, 2], vec![5; 2]), ("ALPHA_STATE_OUT", vec![1, 5], vec![4; 5])];
        assert_eq!(states, expected, "{strategy}, {order}");
        assert!(done[3].states.is_empty(), "an idle slot has no state to keep");
        server.end();
    }
}

#[test]
fn two_states_that_the_server_exchanges_show_in_both_outputs_or_as_an_error() {
    let config = Config::two_states();
    let server = Server::running(&config);
    server.execute([config.ask(START, 7, &[100])]);
    let state = |number: i64, elements: usize| encoded("TYPE_INT32", &vec![number; elements]).1;
    let exchanged = config.ask(MID, 7, &[5]).with("ZETA_STATE", state(1, 2)).with("ALPHA_STATE", state(100, 5));
    let mut with_shapes = config.ask(MID, 8, &[5]).with("ZETA_STATE", state(1, 5)).with("ALPHA_STATE", state(100, 2));
    with_shapes.input("ZETA_STATE").shape = vec![1, 5];
    with_shapes.input("ALPHA_STATE").shape = vec![1, 2];
    let mut of_another_type = config.ask(MID, 9, &[5]);
    of_another_type.input("ALPHA_STATE").code = 11;
    let done = server.execute([exchanged, with_shapes, of_another_type]);
    assert_eq!((done[0].sums(), done[0].counts()), (vec![6], vec![101]));
    let errors: Vec<_> = done.iter().map(Account::error).collect();
    assert_eq!(
        errors,
        [
            "",
            "tensor 'ZETA_STATE': the server gives it the shape [1, 5], and its dims are [2]",
            "tensor 'ALPHA_STATE': it is TYPE_FP32 and not TYPE_INT32",
        ]
    );
    assert!(done[1].states.is_empty() && done[2].states.is_empty(), "the server keeps what it has");
    server.end();
}

/// A step of 5 in a sequence whose states are these multiples of 100: the sum, three times and five times the sum, with the sizes of each.
fn goes_on_from(config: &Config, [sum, triple, quintuple]: [&[i64]; 3]) -> Ask {
    let mut ask = config.ask(MID, 7, &[5]);
    for (name, datatype, numbers) in [
        ("ZETA_STATE", "TYPE_INT32", sum),
        ("ALPHA_STATE", "TYPE_INT64", triple),
        ("MIDDLE_STATE", "TYPE_UINT32", quintuple),
    ] {
        let tensor = ask.input(name);
        (tensor.code, tensor.data) = encoded(datatype, numbers);
        tensor.shape = vec![1, i64::try_from(numbers.len()).expect("it is short")];
    }
    ask
}

#[test]
fn copies_of_the_sum_are_kept_in_their_own_types_and_sizes() {
    for (has_initial, oldest) in [(true, false), (false, false), (true, true), (false, true)] {
        let strategy = if oldest { "oldest" } else { "direct" };
        let config = Config { strategy, ..Config::copies(has_initial) };
        let server = Server::running(&config);
        let done = server.converse(vec![
            config.batch(&[(START, 7, 5), (START, 8, 100)]),
            config.batch(&[(MID, 7, 2), (MID, 8, -101)]),
            config.batch(&[(MID, 7, -3), (MID, 8, 1)]),
            config.batch(&[(END, 7, 1), (START, 9, 40)]),
        ]);
        let sums: Vec<_> = done.iter().flat_map(Account::sums).collect();
        assert_eq!(sums, [5, 100, 7, -1, 4, 0, 5, 40], "{strategy}");
        let states = |account: &Account| -> Vec<_> {
            account.states.iter().map(|state| (state.shape.clone(), decoded(state))).collect()
        };
        let expected = [(vec![1, 2], vec![-1; 2]), (vec![1, 5], vec![-3; 5]), (vec![1, 64], vec![0xffff_fffb; 64])];
        assert_eq!(states(&done[3]), expected, "an open state has as many elements as the low bits of the sum say");
        assert_eq!(states(&done[5])[2], (vec![1, 1], vec![0]));
        server.end();
    }
}

#[test]
fn states_that_are_exchanged_or_not_of_one_step_are_named_and_not_kept() {
    let config = Config::copies(false);
    let server = Server::running(&config);
    let of_100: [&[i64]; 3] = [&[100; 2], &[300; 5], &[500; 37]];
    let turned = |order: [&str; 3]| {
        let mut ask = goes_on_from(&config, of_100);
        let all = ["ZETA_STATE", "ALPHA_STATE", "MIDDLE_STATE"].map(|name| ask.input(name).clone());
        for (name, from) in ["ZETA_STATE", "ALPHA_STATE", "MIDDLE_STATE"].into_iter().zip(order) {
            let from = all.iter().find(|tensor| tensor.name == from).expect("it is one of them");
            *ask.input(name) = Tensor { name: name.to_owned(), ..from.clone() };
        }
        ask
    };
    for (ask, error) in [
        (goes_on_from(&config, of_100), ""),
        (
            turned(["ALPHA_STATE", "ZETA_STATE", "MIDDLE_STATE"]),
            "states are exchanged: 'ZETA_STATE' holds 'ALPHA_STATE', 'ALPHA_STATE' holds 'ZETA_STATE'",
        ),
        (
            turned(["MIDDLE_STATE", "ZETA_STATE", "ALPHA_STATE"]),
            "states are exchanged: 'ZETA_STATE' holds 'MIDDLE_STATE', 'ALPHA_STATE' holds 'ZETA_STATE', 'MIDDLE_STATE' \
             holds 'ALPHA_STATE'",
        ),
        (
            goes_on_from(&config, [&[90; 2], of_100[1], of_100[2]]),
            "states are not of one step: 'ZETA_STATE' is 90, so that 'ALPHA_STATE' has to be 270 of dims [5], and it is 300 of shape [1, 5]",
        ),
        (
            goes_on_from(&config, [of_100[0], &[270; 5], of_100[2]]),
            "states are not of one step: 'ZETA_STATE' is 100, so that 'ALPHA_STATE' has to be 300 of dims [5], and it is 270 of shape [1, 5]",
        ),
        (
            goes_on_from(&config, [of_100[0], of_100[1], &[450; 37]]),
            "states are not of one step: 'ZETA_STATE' is 100, so that 'MIDDLE_STATE' has to be 500 of dims [37], and it is 450 of shape [1, 37]",
        ),
        (
            goes_on_from(&config, [of_100[0], of_100[1], &[500; 36]]),
            "states are not of one step: 'ZETA_STATE' is 100, so that 'MIDDLE_STATE' has to be 500 of dims [37], and it is 500 of shape [1, 36]",
        ),
        (
            goes_on_from(&config, [&[100, 90], of_100[1], of_100[2]]),
            "states are not of one step: 'ZETA_STATE' is 100, so that 'ZETA_STATE' has to be 100 of dims [2], and it is 100 of shape [1, 2]",
        ),
        (
            goes_on_from(&config, [&[100; 3], of_100[1], of_100[2]]),
            "tensor 'ZETA_STATE': the server gives it the shape [1, 3], and its dims are [2]",
        ),
    ] {
        let done = server.execute([ask]);
        assert_eq!(done[0].error(), error);
        let kept = if error.is_empty() { 3 } else { 0 };
        assert_eq!(done[0].states.len(), kept, "{error}");
    }
    server.end();
}

#[test]
fn a_server_that_cannot_take_one_of_two_states_keeps_both_as_they_were() {
    let config = Config::two_states();
    let server = Server::running(&config);
    world().to_fail = Some(("TRITONBACKEND_StateBuffer", 2));
    let done = server.execute([config.ask(START, 7, &[5])]);
    assert_eq!((done[0].error(), done[0].states.len()), (TOLD_TO_FAIL, 0));
    server.end();
}

#[test]
fn a_model_without_batches_has_tensors_without_a_batch_dimension() {
    for state in [None, Some(true)] {
        let config = Config { max_batch_size: 0, state, seen: &[("SLOT", "TYPE_INT32")], ..Config::direct() };
        let server = Server::running(&config);
        let one = server.execute([config.ask(START, 7, &[5])]);
        let state = one[0].state();
        let mut next = config.ask(MID, 7, &[6]);
        if let Some(state) = state {
            assert_eq!(one[0].states[0].shape, [1]);
            next.set("INPUT_STATE", state);
        }
        let two = server.execute([next]);
        assert_eq!((one[0].sums(), two[0].sums()), (vec![5], vec![11]));
        assert_eq!((&one[0].output("OUTPUT").shape[..], &one[0].output("SLOT").shape[..]), (&[1][..], &[1][..]));
        server.end();
    }
}

#[test]
fn a_ragged_batch_is_summed_row_by_row() {
    let config = Config::direct();
    let server = Server::running(&config);
    let done = server.execute([
        config.ask(START, 7, &[1, 2, 3]),
        config.ask(START, 8, &[10]),
        config.ask(START, 9, &[]),
        config.ask(START, 10, &[4, -4]),
    ]);
    let outputs: Vec<_> = done.iter().map(|done| (done.sums(), done.output("OUTPUT").shape.clone())).collect();
    assert_eq!(
        outputs,
        [(vec![6; 3], vec![1, 3]), (vec![10], vec![1, 1]), (vec![], vec![1, 0]), (vec![0; 2], vec![1, 2])]
    );
    server.end();
}

#[test]
fn a_text_as_an_id_arrives_with_what_the_server_fills_it_up_with() {
    let config = Config { seen: &[("SAW_CORRID", "TYPE_STRING")], corrid: Some("TYPE_STRING"), ..Config::oldest() };
    let server = Server::running(&config);
    let longest = "x".repeat(128);
    let ask = |flags, id: &str, number| {
        let mut ask = config.ask(flags, 1, &[number]);
        ask.id = Id::Text(CString::new(id).expect("it has no NUL"));
        let mut element = text_element(id);
        element.resize(132, 0);
        ask.with("CORRID", element)
    };
    let one = server.execute([ask(START, "red", 5), ask(START, &longest, 100)]);
    let two = server.execute([ask(MID, &longest, 1), ask(MID, "red", 2)]);
    let sums: Vec<_> = one.iter().chain(&two).flat_map(Account::sums).collect();
    assert_eq!(sums, [5, 100, 101, 7]);
    assert_eq!(one[0].output("SAW_CORRID").data, text_element("red"));
    assert_eq!(one[1].output("SAW_CORRID").data, text_element(&longest));
    server.end();
}

#[test]
fn a_decoupled_model_answers_as_often_as_it_is_told_and_the_last_answer_is_final() {
    for (responses, answers) in [(None, 1), (Some("3"), 3), (Some("0"), 0)] {
        let parameters: Vec<_> = responses.map(|count| ("sequence_stress_responses", count)).into_iter().collect();
        let config = Config { decoupled: true, seen: &[("SLOT", "TYPE_INT32")], parameters, ..Config::direct() };
        let server = Server::running(&config);
        let one = server.execute([config.padding(), config.ask(START, 7, &[1, 2]), config.ask(START, 8, &[4])]);
        let two = server.execute([config.padding(), config.ask(END, 7, &[10])]);
        let expected =
            |sum: i64, elements: usize| (0..answers).flat_map(|k| vec![sum + k; elements]).collect::<Vec<_>>();
        assert_eq!(
            [&one[1], &one[2], &two[1]].map(Account::sums),
            [expected(3, 2), expected(4, 1), expected(13, 1)],
            "{responses:?}"
        );
        let finals: Vec<_> = one[1].answers.iter().map(|answer| (answer.outputs.len(), answer.is_final)).collect();
        let expected: &[(usize, bool)] = match answers {
            0 => &[(0, true)],
            1 => &[(2, true)],
            _ => &[(2, false), (2, false), (2, true)],
        };
        assert_eq!(finals, expected);
        server.end();
    }
}

#[test]
fn an_iterative_model_adds_its_input_at_each_execution() {
    for oldest in [false, true] {
        let base = if oldest { Config::oldest() } else { Config::direct() };
        for (parameters, times) in [(vec![], 3), (vec![("sequence_stress_iterations", "1")], 1)] {
            let config = Config { iterative: true, parameters, ..base.clone() };
            let server = Server::running(&config);
            let done = server.execute([config.ask(START, 7, &[1, 2]), config.ask(START, 8, &[4])]);
            assert_eq!((done[0].sums(), done[1].sums()), (vec![3 * times; 2], vec![4 * times]));
            let reschedules = usize::try_from(times - 1).expect("it is small");
            assert_eq!((done[0].reschedules, done[1].reschedules), (reschedules, reschedules));
            assert_eq!((&done[0].reports[..], &done[1].reports[..]), (&[true][..], &[true][..]));
            assert_eq!(world().batches, vec![2; reschedules + 1]);
            let next = server.execute([config.ask(START, 7, &[5])]);
            assert_eq!(next[0].sums(), [5 * times], "it begins anew");
            server.end();
        }
    }
}

#[test]
fn an_iterative_decoupled_model_answers_at_each_of_its_turns() {
    let config = Config { iterative: true, decoupled: true, ..Config::direct() };
    let server = Server::running(&config);
    let done = server.execute([config.ask(START, 7, &[5])]);
    let answers: Vec<_> = done[0].answers.iter().map(|answer| answer.is_final).collect();
    assert_eq!((done[0].sums(), answers, done[0].reschedules), (vec![5, 10, 15], vec![false, false, true], 2));
    server.end();
}

#[test]
fn outputs_tell_what_the_model_saw_and_are_given_where_they_are_wanted() {
    let config = Config { seen: ALL_SEEN, corrid: Some("TYPE_UINT64"), ..Config::direct() };
    let server = Server::running(&config);
    let mut few = config.ask(END, 8, &[1]);
    few.wants = vec![c"SAW_END".into(), c"SLOT".into()];
    let mut none = config.ask(START, 9, &[1]);
    none.wants.clear();
    let done = server.execute([config.padding(), config.ask(START, 7, &[5]), few, none]);
    let told = |name: &str| done[1].output(name).data.clone();
    assert_eq!(told("OUTPUT"), 5_i32.to_le_bytes());
    for (name, number) in [("SLOT", 1_i32), ("SAW_START", 1), ("SAW_END", 0), ("SAW_READY", 1), ("INSTANCE", 0)] {
        assert_eq!(told(name), number.to_le_bytes(), "{name}");
    }
    assert_eq!(told("SAW_CORRID"), 7_u64.to_le_bytes());
    let names = |index: usize| -> Vec<_> {
        done[index].answers[0].outputs.iter().map(|output| (&output.name[..], output.data[0])).collect()
    };
    assert_eq!(names(2), [("SLOT", 2), ("SAW_END", 1)]);
    assert_eq!((names(3), done[3].error()), (vec![], ""));
    server.end();
}

/// The elements of the output that tells all that the model saw.
fn seen(account: &Account) -> Vec<i64> {
    account.output("SEEN").data.as_chunks().0.iter().map(|element| i64::from_le_bytes(*element)).collect()
}

#[test]
fn one_output_tells_all_that_the_model_saw_and_the_slot_among_those_of_all_instances() {
    let config = Config { seen: SEEN, corrid: Some("TYPE_UINT64"), ..Config::direct() };
    let mut server = Server::running(&config);
    server.make_instance().expect("a second instance");
    let first = server.execute_on(0, [config.ask(START, 7, &[5]), config.ask(END, u64::MAX, &[1])]);
    let second = server.execute_on(1, [config.padding(), config.ask(MID, 8, &[5])]);
    assert_eq!(first[0].output("SEEN").shape, [1, 5]);
    assert_eq!((seen(&first[0]), seen(&first[1])), (vec![1, 0, 1, 7, 0], vec![0, 1, 1, -1, 1]));
    let slots = 4;
    assert_eq!((seen(&second[1]), second[0].answers[0].outputs.len()), (vec![0, 0, 1, 8, slots + 1], 0));
    server.end();

    let config = Config { seen: SEEN, ..Config::oldest() };
    let server = Server::running(&config);
    assert_eq!(
        seen(&server.execute([config.ask(START, 7, &[5])])[0]),
        [1, 0, 1, 7, -1],
        "no place is a sequence's own"
    );
    server.end();
}

#[test]
fn a_model_that_is_told_that_it_is_not_ready_tells_that() {
    let parameters = vec![("fault", "ready-missing:once@1"), ("check_controls", "false")];
    let config = Config { seen: SEEN, parameters, ..Config::direct() };
    let server = Server::running(&config);
    let done = server.execute([config.ask(START, 7, &[5])]);
    assert_eq!((seen(&done[0])[2], done[0].answers[0].outputs.len()), (0, 1));
    server.end();
}

#[test]
fn an_input_may_come_in_several_buffers() {
    let config = Config { corrid: Some("TYPE_STRING"), ..Config::direct() };
    let server = Server::running(&config);
    for cuts in [vec![], vec![4], vec![1, 2], vec![0, 7, 0], vec![12], vec![12, 0]] {
        let mut ask = config.ask(START, 7, &[1, 20, 300]);
        ask.input("INPUT").cuts.clone_from(&cuts);
        ask.input("CORRID").cuts = vec![1, 3];
        ask.input("START").cuts = vec![2];
        assert_eq!(server.execute([ask])[0].sums(), [321; 3], "{cuts:?}");
    }
    server.end();
}

#[test]
fn pinned_memory_is_read_and_written_and_the_gpus_is_rejected() {
    let config = Config { state: Some(true), ..Config::direct() };
    let server = Server::running(&config);
    world().output_memory = 1;
    world().state_memory = 1;
    let mut pinned = config.ask(START, 7, &[5]);
    pinned.input("INPUT").memory = 1;
    assert_eq!(server.execute([pinned])[0].sums(), [5]);
    for name in ["INPUT", "INPUT_STATE", "END"] {
        let mut ask = config.ask(START, 7, &[5]);
        ask.input(name).memory = MEMORY_GPU;
        let done = server.execute([ask, config.ask(START, 8, &[6])]);
        assert_eq!(done[0].error(), format!("tensor '{name}' is not in the CPU's memory"));
        assert_eq!((done[1].sums(), &done[0].reports[..]), (vec![6], &[false][..]), "{name}");
    }
    world().output_memory = MEMORY_GPU;
    let done = server.execute([config.ask(START, 7, &[5])]);
    assert_eq!(done[0].error(), "tensor 'OUTPUT': its buffer is not in the CPU's memory");
    world().state_memory = MEMORY_GPU;
    let done = server.execute([config.ask(START, 7, &[5])]);
    assert_eq!(done[0].error(), "tensor 'OUTPUT_STATE': its buffer is not in the CPU's memory");
    server.end();
}

#[test]
fn a_value_may_be_rejected_and_its_batch_goes_on() {
    let config = Config { parameters: vec![("error_on_value", "13")], ..Config::direct() };
    let server = Server::running(&config);
    let one = server.execute([config.ask(START, 7, &[5]), config.ask(START, 8, &[6])]);
    let two = server.execute([config.ask(MID, 7, &[13]), config.ask(MID, 8, &[1])]);
    let three = server.execute([config.ask(MID, 7, &[1]), config.ask(MID, 8, &[6, 7])]);
    assert_eq!((two[0].error(), &two[0].reports[..]), ("the model takes no 13", &[false][..]));
    assert_eq!((one[0].sums(), three[0].sums(), three[1].error()), (vec![5], vec![6], "the model takes no 13"));
    assert_eq!((two[1].sums(), &two[1].reports[..]), (vec![7], &[true][..]));
    server.end();
}

#[test]
fn what_a_client_sends_wrongly_is_its_own_error() {
    let config = Config::direct();
    let server = Server::running(&config);
    let mut shape = config.ask(START, 7, &[5]);
    shape.input("INPUT").shape = vec![1, 2];
    let mut datatype = config.ask(START, 8, &[5]);
    datatype.input("INPUT").code = 11;
    let mut unknown = config.ask(START, 9, &[5]);
    unknown.input("INPUT").code = 99;
    let mut missing = config.ask(START, 10, &[5]);
    missing.inputs.remove(0);
    let done = server.execute([shape, datatype, unknown, missing]);
    let errors: Vec<_> = done.iter().map(Account::error).collect();
    assert_eq!(
        errors,
        [
            "tensor 'INPUT': its shape [1, 2] and its 4 bytes do not agree",
            "tensor 'INPUT': it is TYPE_FP32 and not TYPE_INT32",
            "tensor 'INPUT': data type 99 is not known",
            "input 'INPUT' does not exist in request",
        ]
    );
    server.end();
}

#[test]
fn an_input_may_be_a_single_number_without_a_shape() {
    let config = Config::direct();
    let server = Server::running(&config);
    let mut ask = config.ask(START, 7, &[5]);
    ask.input("INPUT").shape.clear();
    assert_eq!(server.execute([ask])[0].sums(), [5]);
    server.end();
}

#[test]
fn an_execution_takes_as_long_as_it_is_told() {
    let config = Config { parameters: vec![("execute_delay_ms", "30")], ..Config::direct() };
    let server = Server::running(&config);
    world().sleeping = Sleeping::Skipped;
    server.execute([config.ask(START, 7, &[5])]);
    assert_eq!(world().slept, [Duration::from_millis(30)]);
    server.end();
}
