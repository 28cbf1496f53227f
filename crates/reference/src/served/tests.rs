use std::time::Duration;

use tokio::time;

use super::*;
use crate::{
    builtin::configs,
    execution::Wants,
    fault::Planted,
    spec::Files,
    tensor::{Datatype, Tensor},
};
use models::ModelOptions;
use workload::seed::Seed;

const HOLD: Duration = Duration::from_secs(10);

fn served(model: &str, planted: &[Planted]) -> Arc<Served> {
    // The reaper looks at another clock than the one that stands still here, so it is kept out.
    let idle_limit = Duration::from_secs(3600);
    let options = ModelOptions { idle_limit, execution: Duration::ZERO, ..ModelOptions::default() };
    let config = configs(&options).into_iter().find(|config| config.name == model).expect("a built-in model");
    let spec = Arc::new(Spec::new(config, &Files::new()).expect("it is right"));
    let mut faults = Faults::new(planted, Seed(0));
    faults.hold = HOLD;
    Served::start(&spec, &Arc::new(faults), &Tasks::here())
}

fn submit(served: &Served, start: bool, end: bool) -> oneshot::Receiver<Answer> {
    let (reply, answer) = oneshot::channel();
    let (datatype, shape) = (Datatype::Int32, [1, 1]);
    let payload = Ticket {
        version: crate::FIRST_VERSION,
        request_id: String::new(),
        inputs: vec![("INPUT".into(), Tensor { datatype, shape: shape.to_vec(), data: vec![1, 0, 0, 0] })],
        wants: Wants::default(),
        reply: Reply::Call(reply),
    };
    let request = Request {
        id: SequenceId::Number(7),
        start,
        end,
        goes_on: false,
        batch_size: 1,
        timeout: None,
        cancelled: Arc::default(),
        shape: shape.into(),
        arrived: Moment::ZERO,
        payload,
    };
    assert!(served.submit(request).is_ok());
    answer
}

/// After how many holds the steps of a sequence are answered, and the model is gone that was stopped with the last one.
async fn holds(model: &str, planted: &[Planted]) -> [u64; 4] {
    let began = time::Instant::now();
    let holds = || began.elapsed().as_secs() / HOLD.as_secs();
    let served = served(model, planted);
    let answers = [(true, false), (false, false), (false, true)].map(|(start, end)| submit(&served, start, end));
    let mut seen = [0; 4];
    for (answer, seen) in answers.into_iter().zip(&mut seen) {
        answer.await.expect("an answer").expect("a good one");
        *seen = holds();
    }
    served.stop();
    while !served.is_gone() {
        time::sleep(Duration::from_millis(1)).await;
    }
    seen[3] = holds();
    seen
}

#[tokio::test(start_paused = true)]
async fn an_instance_is_held_up_before_or_after_its_answers() {
    use Fault::{LateRelease, SlowExecution};
    for model in ["custom_sequence_int32", "oldest_sequence_int32"] {
        assert_eq!(holds(model, &[]).await, [0, 0, 0, 0], "{model}");
        assert_eq!(holds(model, &[Planted::always(SlowExecution)]).await, [1, 2, 3, 3], "{model}");
        assert_eq!(holds(model, &[Planted::always(LateRelease)]).await, [0, 1, 2, 3], "{model}");
        assert_eq!(holds(model, &[Planted::once(SlowExecution, 2)]).await, [0, 1, 1, 1], "{model}");
        assert_eq!(holds(model, &[Planted::once(LateRelease, 2)]).await, [0, 0, 1, 1], "{model}");
    }
}
