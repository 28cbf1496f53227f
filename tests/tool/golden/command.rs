//! The command line.

use super::*;

#[test]
fn each_command_takes_the_golden_file_and_says_where_it_needs_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let (golden, failure, history) = (path("gru.golden"), path("failure.toml"), path("history.jsonl"));
    let server = ["--embedded", "-m", GRU, "--execution-time", "1ms"];
    let told_by = |arguments: &[&[&str]]| told(&arguments.concat());
    let (code, text) = told_by(&[&["golden"], &server, &["--tracks", "4", "--steps", "32", "-o", &golden]]);
    assert!(code == Some(0) && text.contains("6 of 6 kinds of fault are visible on this model"), "{text}");
    let (code, text) = told_by(&[&["golden", "verify", &golden], &server]);
    assert!(code == Some(0) && text.contains("the same: 128 responses alone on the server"), "{text}");

    for made in ["calibrated", "cached"] {
        let auto = ["--golden", "auto", "--tracks", "4", "--steps", "32", "-i", "6", "-r", "7"];
        let output =
            tool().args(server).args(auto).env("SEQUENCE_STRESS_CACHE", folder.path()).output().expect("it runs");
        let text = text_of(&output);
        assert!(output.status.success() && text.contains("kinds of fault") == (made == "calibrated"), "{made}: {text}");
    }

    // The file says which model it is of.
    let server = ["--embedded", "--execution-time", "1ms"];
    let run = ["-i", "12", "-r", "7", "--fault", "skip-step:once@40", "--golden", &golden];
    let files = ["--failure", &failure, "--history", &history, "--history-keep", "all"];
    let (code, text) = told_by(&[&server, &run, &files]);
    assert!(code == Some(1) && text.contains("wrong-output, cause not-executed: 1 violation"), "{text}");
    for (command, file) in [("replay", &failure), ("check", &history)] {
        let (code, text) = told(&[command, file]);
        assert!(code == Some(2) && text.contains("--golden FILE"), "{command}: {text}");
        let (code, text) = told(&[command, file, "--golden", &golden]);
        assert!(code == Some(1) && text.contains("wrong-output"), "{command}: {text}");
    }
    let (code, text) = told(&["export", &failure]);
    assert!(code == Some(2) && text.contains("(--golden FILE)"), "{text}");
    let (code, script) = told(&["export", &failure, "--golden", &golden]);
    let expected = "expect=\"the outputs of step 2 of 'random ";
    assert!(code == Some(0) && script.contains(expected) && script.contains("\nSTEPS = {\n"), "{script}");
    // That of another model is of no use, and neither is that of other inputs.
    let others = [
        (["-m", GRU, "--inputs-seed", "9"], "it is of other inputs"),
        (
            ["-m", "gru_oldest_float32", "--inputs-seed", "0"],
            "is of model 'gru_oldest_float32', and the failure of model",
        ),
    ];
    for (of, why) in others {
        let other = path("other.golden");
        let tracks = ["--embedded", "--execution-time", "1ms", "--tracks", "2", "--steps", "4", "-o", &other];
        let (code, text) = told_by(&[&["golden"], &tracks, &of]);
        assert_eq!(code, Some(0), "{text}");
        for command in ["replay", "export"] {
            let (code, text) = told(&[command, &failure, "--golden", &other]);
            assert!(code == Some(2) && text.contains(why) && text.contains("--golden FILE"), "{command}: {text}");
        }
    }

    // Where nothing is expected of outputs, the history says so, and needs no golden file.
    let blind = ["--embedded", "-m", GRU, "--execution-time", "1ms", "--expect", "none", "-i", "6", "-r", "7"];
    let (code, text) = told_by(&[&blind, &["--history", &history, "--history-keep", "all"]]);
    assert!(code == Some(0) && text.contains("later responses to the same steps"), "{text}");
    let (code, text) = told(&["check", &history]);
    assert!(code == Some(0) && text.contains("VALID"), "{text}");
    let (code, text) = told(&["check", &history, "--golden", &golden]);
    assert!(code == Some(2) && text.contains("has other inputs than the run had"), "{text}");

    // What is read is not written over.
    for files in [["--golden", &golden, "--json", &golden], ["--golden", &golden, "--failure", &golden]] {
        let (code, text) = told_by(&[&server, &files]);
        assert!(code == Some(2) && text.contains("--golden") && text.contains("name the same file"), "{text}");
    }
    let (code, text) = told(&["golden", "--embedded", "-m", GRU, "--inputs", &golden, "-o", &golden]);
    assert!(code == Some(2) && text.contains("--inputs and --output name the same file"), "{text}");

    let (code, text) = told(&["suite", "--embedded", "--golden", &golden, "--json", &golden]);
    assert!(code == Some(2) && text.contains("--json and --golden name the same file"), "{text}");

    // What is of no use is not kept, and each run calibrates anew.
    let kept = tempfile::tempdir().expect("a folder");
    for _ in 0..2 {
        let noise = ["--embedded", "-m", "gru_run_noise_float32", "--execution-time", "0ms", "-i", "2", "-q"];
        let auto = ["--golden", "auto", "--tracks", "2", "--steps", "4"];
        let output = tool().args(noise).args(auto).env("SEQUENCE_STRESS_CACHE", kept.path()).output();
        let text = text_of(&output.expect("it runs"));
        assert!(text.contains("not deterministic enough to judge") && text.contains("UNKNOWN"), "{text}");
        assert!(!kept.path().join("golden").exists(), "{text}");
    }
    // The shortest report says what the file does not have.
    let (code, text) = told_by(&[&server, &["--golden", &golden, "-i", "6", "-q"]]);
    assert!(code == Some(0) && text.contains("not checked") && text.contains("steps after step 32"), "{text}");

    // What was changed or cut short is not used.
    let mut bytes = std::fs::read(&golden).expect("a file");
    bytes.truncate(bytes.len() - 1);
    std::fs::write(&golden, bytes).expect("a file");
    let (code, text) = told_by(&[&server, &run]);
    assert!(code == Some(2) && text.contains("its checksum does not fit"), "{text}");
}
