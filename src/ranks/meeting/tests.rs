use std::num::NonZeroU32;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;
use crate::ranks::{Said, members::tests_only::greeted};
use workload::share::Share;

fn place(rank: u32, of: u32) -> Place {
    let share = Share { rank, of: NonZeroU32::new(of).expect("not zero") };
    Place { share, launcher: Launcher::Slurm, job: Some("7.0".to_owned()), restarts: 0, are_here: true }
}

fn meeting(folder: &Path, limit: Duration) -> Meeting {
    Meeting { address: None, folder: folder.to_owned(), limit }
}

const LONG: Duration = Duration::from_secs(60);

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(work)
}

#[test]
fn ranks_find_each_other_by_a_file_in_whatever_order_they_come() {
    let folder = tempfile::tempdir().expect("a folder");
    // What a job of this name left behind leads nowhere.
    fs::write(folder.path().join("rendezvous-7.0.json"), r#"{"address":"127.0.0.1:1","token":"x"}"#).expect("a file");
    run(async {
        let late = async {
            sleep(Duration::from_millis(50)).await;
            join(&place(0, 3), &meeting(folder.path(), LONG)).await
        };
        let [second, third] = [1, 2].map(|rank| (place(rank, 3), meeting(folder.path(), LONG)));
        let (first, second, third) = tokio::join!(late, join(&second.0, &second.1), join(&third.0, &third.1));
        let Ok(Joined::Leads(members)) = first else { panic!("{first:?}") };
        let ranks: Vec<_> = members.all().iter().map(|member| (member.rank, member.offset.uncertainty_ns)).collect();
        // They go by one clock, because they are on one machine.
        assert_eq!(ranks, [(1, 0), (2, 0)]);
        let (Ok(Joined::Follows(mut second)), Ok(Joined::Follows(third))) = (second, third) else {
            panic!("no leader")
        };
        members.say(&FromLeader::Stop).await;
        assert!(matches!(second.next().await, Ok(FromLeader::Stop)));
        // One that goes is seen to be gone.
        drop(third);
        let (index, said) = members.next().await;
        assert!(index == 1 && matches!(said, Said::Lost(_)), "{index} {said:?}");
        assert!(members.why_lost(1).is_some() && members.why_lost(0).is_none());
        assert!(fs::read_dir(folder.path()).expect("a folder").next().is_none(), "the file is gone");
    });
}

#[test]
fn who_does_not_belong_there_is_refused_and_does_not_count() {
    let folder = tempfile::tempdir().expect("a folder");
    run(async {
        let (first, meeting) = (place(0, 2), meeting(folder.path(), LONG));
        let leads = join(&first, &meeting);
        let strangers = async {
            let path = folder.path().join("rendezvous-7.0.json");
            let whereabouts = loop {
                match read(&path) {
                    Ok(whereabouts) => break whereabouts,
                    Err(_) => sleep(LOOK_AGAIN).await,
                }
            };
            for (hello, expected) in [
                (Hello { token: "wrong".to_owned(), ..greeted(&place(1, 2)) }, "another job"),
                (Hello { token: whereabouts.token.clone(), ..greeted(&place(1, 3)) }, "rank 0 has 2 ranks"),
                (Hello { token: whereabouts.token.clone(), ..greeted(&place(0, 2)) }, "a rank 0 already"),
                (Hello { token: whereabouts.token.clone(), ..greeted(&place(7, 2)) }, "there is no rank 7 of 2"),
                (
                    Hello { token: whereabouts.token.clone(), version: "0/0".to_owned(), ..greeted(&place(1, 2)) },
                    "use one version",
                ),
            ] {
                let connection = TcpStream::connect(whereabouts.address.as_str()).await.expect("it listens");
                let mut leader = Leader::over(connection, place(1, 2).share).expect("a connection");
                leader.outbox().say(&FromMember::Hello(hello)).await;
                let Ok(FromLeader::Refused { why }) = leader.next().await else { panic!("{expected}") };
                assert!(why.contains(expected), "{why}");
            }
            // Nobody keeps room for a stranger's endless frame.
            let mut endless = TcpStream::connect(whereabouts.address.as_str()).await.expect("it listens");
            endless.write_all(&[0x0f, 0xff, 0xff, 0xff, b'{']).await.expect("it takes the length");
            let end = endless.read(&mut [0; 16]).await;
            assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
            // One that says nothing at all keeps nobody out.
            let silent = TcpStream::connect(whereabouts.address.as_str()).await.expect("it listens");
            let second = join(&place(1, 2), &meeting).await;
            // Too late.
            let late = greet(&place(1, 2), &whereabouts).await;
            drop(silent);
            (second, late)
        };
        let (leads, (second, late)) = tokio::join!(leads, strangers);
        assert!(matches!(leads, Ok(Joined::Leads(members)) if members.all().len() == 1));
        assert!(matches!(second, Ok(Joined::Follows(_))));
        let Err(Greeted::Refused(why)) = late else { panic!("it was taken in") };
        assert!(why.contains("in the middle of a run"), "{why}");
    });
}

#[test]
fn a_rank_has_one_process_at_a_time_and_who_waited_in_vain_learns_for_whom() {
    let folder = tempfile::tempdir().expect("a folder");
    run(async {
        let ranks = async {
            let long = meeting(folder.path(), LONG);
            let Ok(Joined::Follows(first)) = join(&place(1, 3), &long).await else { panic!("it is the first one") };
            let Ok(Joined::Follows(mut second)) = join(&place(1, 3), &long).await else { panic!("it learns it later") };
            let Ok(FromLeader::Refused { why }) = second.next().await else { panic!("there are two") };
            assert!(why.contains("there is a rank 1 already"), "{why}");
            // Its place is free when it is gone.
            drop((first, second));
            loop {
                let Ok(Joined::Follows(mut again)) = join(&place(1, 3), &long).await else { panic!("no rank 0") };
                match again.next().await {
                    Ok(FromLeader::Refused { why }) if why.contains("already") => {}
                    said => break said,
                }
            }
        };
        let limited = meeting(folder.path(), Duration::from_secs(2));
        let rank_0 = place(0, 3);
        let (leads, told) = tokio::join!(join(&rank_0, &limited), ranks);
        let Err(RankError::CouldNotMeet(expected)) = leads else { panic!("rank 2 is missing") };
        let Ok(FromLeader::Refused { why }) = told else { panic!("{told:?}") };
        assert!(why == expected && why.starts_with("rank 2 of 3 did not come"), "{why} {expected}");
    });
}

#[test]
fn an_interrupt_of_a_rank_ends_the_wait_for_others() {
    let folder = tempfile::tempdir().expect("a folder");
    run(async {
        let meeting = meeting(folder.path(), LONG);
        let (first, second) = (place(0, 3), place(1, 3));
        let interrupted = async {
            let Ok(Joined::Follows(mut leader)) = join(&second, &meeting).await else { panic!("no leader") };
            leader.outbox().say(&FromMember::Interrupted).await;
            leader.next().await
        };
        let (leads, told) = tokio::join!(join(&first, &meeting), interrupted);
        let expected = "rank 1 was interrupted before all ranks had come; nothing was sent";
        assert!(matches!(&leads, Err(RankError::Refused(why)) if why == expected), "{leads:?}");
        assert!(matches!(&told, Ok(FromLeader::Refused { why }) if why == expected), "{told:?}");
    });
}

#[test]
fn nobody_is_waited_for_longer_than_the_limit() {
    let folder = tempfile::tempdir().expect("a folder");
    let soon = meeting(folder.path(), Duration::from_millis(60));
    run(async {
        let Err(RankError::CouldNotMeet(why)) = join(&place(0, 9), &soon).await else { panic!("nobody came") };
        assert!(why.starts_with("ranks 1, 2, 3, 4, 5 and 3 more of 9 did not come within 0.06 s"), "{why}");
        let Err(RankError::CouldNotMeet(why)) = join(&place(1, 2), &soon).await else { panic!("nobody is there") };
        assert!(why.starts_with("rank 1 found no rank 0 within 0.06 s"), "{why}");
    });
}

#[test]
fn ranks_that_nothing_tells_where_they_meet_are_told_what_to_add() {
    let folder = tempfile::tempdir().expect("a folder");
    for (launcher, words) in [(Launcher::ByHand, "by hand"), (Launcher::Kubernetes, "by Kubernetes")] {
        let place = Place { launcher, ..place(1, 2) };
        let error = run(join(&place, &meeting(folder.path(), LONG))).expect_err("nobody knows");
        let RankError::WrongInput(why) = error else { panic!("{error:?}") };
        assert!(why.contains(words) && why.contains("--rendezvous HOST:PORT"), "{why}");
    }
}
