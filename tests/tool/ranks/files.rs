//! `report --merge`: the files that ranks wrote, put together.

use super::*;

/// What the files of a run come to.
struct Merged {
    code: Option<i32>,
    report: String,
    result: Value,
}

impl Job {
    fn merged(&self) -> Merged {
        let words = ["report", "--merge", &self.file("results"), "--json", &self.file("merged.json")];
        let (code, report) = told(&words);
        Merged { code, report: unwrapped(&report), result: self.json("merged.json") }
    }
}

#[test]
fn when_rank_0_is_killed_the_others_keep_what_they_measured() {
    let fault = "off-by-one:0.1".parse().expect("a fault");
    let (job, server) = (Job::of(3), TestServer::start(Setup { faults: vec![fault], ..Setup::default() }));
    let mut ranks = job.at_work(&server, 200, &[]);
    ranks[0].kill().expect("it is there");
    let ended: Vec<_> = ranks.into_iter().map(end).collect();
    assert_eq!(codes(&ended), [None, Some(3), Some(3)], "{ended:?}");
    for (rank, its) in ended.iter().enumerate().skip(1) {
        let expected = format!("sequence-stress: rank {rank}: rank 0 is gone (its connection ");
        let is_told = its.errors.starts_with(&expected) && its.errors.contains("; what this rank measured is in ");
        assert!(is_told && its.errors.lines().count() == 1, "{}", its.errors);
    }
    let merged = job.merged();
    let report = merged.report;
    assert_eq!(merged.code, Some(1), "{report}");
    for expected in ["rank 0 was lost: its file is missing", "rank 1 was lost: it did not come to the end of its share"]
    {
        assert!(report.contains(expected), "{report}");
    }
    assert!(!report.contains("were not looked at"), "nobody was to look at them: {report}");
    let violations = &merged.result["violations_by_kind"];
    assert!(violations["wrong-sum"].as_u64().is_some_and(|count| count > 0), "{violations}");
    let requests = |rank: usize| merged.result["ranks"]["ranks"][rank]["requests"].as_u64().expect("a number");
    let all = merged.result["requests"].as_u64();
    assert!(requests(1) > 0 && requests(2) > 0 && all == Some(requests(1) + requests(2)), "{all:?}");
}

#[test]
fn the_files_of_a_trial_that_was_cut_short_are_those_of_the_last_one() {
    let (job, server) = (Job::of(2), TestServer::start(Setup::default()));
    let words = ["-u", &server.address.to_string(), "--find-limit", "50..60/s", "-d", "4s", "-r", "1"];
    let mut ranks: Vec<_> = (0..2).map(|rank| job.begin(rank, &words)).collect();
    // Rank 0 writes its file at the end of a trial.
    let began = Instant::now();
    while !job.folder.path().join("results/rank-0.json").is_file() {
        assert!(began.elapsed() < LIMIT, "the first trial does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
    wait_for(&server, server.requests() + 100);
    ranks[0].kill().expect("it is there");
    let ended: Vec<_> = ranks.into_iter().map(end).collect();
    assert_eq!(codes(&ended), [None, Some(3)], "{ended:?}");
    let Merged { code, report, result } = job.merged();
    assert_eq!(code, Some(3), "{report}");
    for expected in ["rank-0.json is left out: it is of an earlier run of these ranks", "rank 0 was lost"] {
        assert!(report.contains(expected), "{report}");
    }
    assert!(result["requests"].as_u64().is_some_and(|sent| sent > 0), "{}", result["requests"]);
}

#[test]
fn what_is_no_file_of_the_run_is_left_out_and_said() {
    let (job, server) = (Job::of(2), TestServer::start(Setup::default()));
    let ended = job.run(&["-u", &server.address.to_string(), "-i", "4", "-r", "1"]);
    assert_eq!(codes(&ended), [Some(0); 2], "{ended:?}");
    let file = |name: &str| job.folder.path().join("results").join(name);
    let whole = job.merged();
    assert_eq!(whole.code, Some(0), "{}", whole.report);
    fs::copy(file("rank-1.json"), file("rank-01.json")).expect("it is copied");
    fs::write(file("rank-7.json"), "{}").expect("it is written");
    assert!(Command::new("mkfifo").arg(file("rank-8.json")).status().expect("it runs").success());
    let merged = job.merged();
    assert_eq!((merged.code, &merged.result["requests"]), (Some(0), &whole.result["requests"]), "{}", merged.report);
    for expected in ["there is another file of rank 1", "rank-7.json is no file of a rank", "rank-8.json is no file"] {
        assert!(merged.report.contains(expected), "{expected}: {}", merged.report);
    }
    // A run that sends nothing leaves what is there.
    let address = server.address.to_string();
    for (words, code) in [
        (&["-u", &address, "--reconnect", "2m"][..], 2),
        (&["-u", &address, "-H", "authorization: Bearer a"], 2),
        (&["-u", &address, "-m", "no_such_model"], 4),
    ] {
        let ended = job.run(words);
        assert_eq!(ended[0].code, Some(code), "{ended:?}");
        assert!(
            file("rank-0.json").is_file() && file("rank-1.json").is_file() && !file("attempt").exists(),
            "{words:?}"
        );
    }
}

#[test]
fn the_files_of_many_ranks_are_put_together_exactly() {
    let job = Job::of(2);
    let ended = job.run(&["--embedded", "-c", "4", "-i", "4", "-r", "1"]);
    assert_eq!(codes(&ended), [Some(0); 2], "{ended:?}");
    let ranks = rounds(100, 1000);
    let folder = job.folder.path().join("many");
    fs::create_dir(&folder).expect("a folder");
    let mut file = job.json("results/rank-1.json");
    let requests = |file: &Value| -> u64 {
        let patterns = file["part"]["tally"]["patterns"].as_array().expect("patterns");
        patterns.iter().map(|its| its["requests"].as_u64().unwrap_or(0)).sum()
    };
    let of_each = requests(&file);
    for rank in 0..ranks {
        file["share"] = serde_json::json!({ "rank": rank, "of": ranks });
        fs::write(folder.join(format!("rank-{rank}.json")), file.to_string()).expect("it is written");
    }
    let merged = job.file("merged.json");
    let (code, report) = told(&["report", "--merge", words(&folder), "--json", &merged]);
    // None of them is the one that looked at the server in the end.
    assert_eq!(code, Some(0), "{report}");
    let result = job.json("merged.json");
    assert_eq!(result["requests"], of_each * ranks);
    assert_eq!(result["latency_us"]["step"]["count"], result["responses"].as_u64().unwrap_or(of_each * ranks));
    assert_eq!(result["ranks"]["ranks"].as_array().map(Vec::len), usize::try_from(ranks).ok());
    // A rank whose file is missing or broken is named, and one of another run is left out.
    fs::remove_file(folder.join("rank-7.json")).expect("it is there");
    fs::write(folder.join("rank-8.json"), "{}").expect("it is written");
    file["share"]["rank"] = 9.into();
    file["run_id"] = "another".into();
    file["origin"]["started_at"] = "2001-01-01T00:00:00Z".into();
    fs::write(folder.join("rank-9.json"), file.to_string()).expect("it is written");
    let (code, report) = told(&["report", "--merge", words(&folder)]);
    let report = unwrapped(&report);
    assert_eq!(code, Some(3), "{report}");
    for expected in [
        "UNKNOWN: rank 7 was lost: its file is missing",
        "rank 8 was lost",
        "rank-8.json is no file of a rank",
        "rank-9.json is left out: it is of ",
    ] {
        assert!(report.contains(expected), "{expected} in {report}");
    }
    let (code, report) = told(&["report", "--merge", &job.file("nothing")]);
    assert!(code == Some(2) && report.contains("give the folder of --results of a run"), "{report}");
}
