//! Plans of TensorRT, made by a `trtexec` of the test's own.

use super::*;

/// The search path with a `trtexec` of this text before all others; without a text, one on which there is none.
fn with_trtexec(folder: &Path, script: Option<&str>) -> OsString {
    if let Some(script) = script {
        let program = folder.join("trtexec");
        fs::write(&program, script).expect("it is written");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("it can be run");
    }
    let others = env::var_os("PATH").unwrap_or_default();
    let others: Vec<_> = env::split_paths(&others).filter(|path| !path.join("trtexec").exists()).collect();
    env::join_paths([folder.to_owned()].into_iter().chain(others)).expect("a search path")
}

#[test]
fn plans_are_made_where_trtexec_is_and_a_word_is_said_where_it_is_not() {
    let planned_in = |target: &Target, script: Option<&str>, more: &[&str]| {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = tool::tool();
        command.env("PATH", with_trtexec(folder.path(), script)).args(["repository", &target.path]);
        let output =
            command.args(["--backend", "tensorrt", "--family", "sequence"]).args(more).output().expect("it runs");
        (output.status.code(), text(&output.stderr), files(Path::new(&target.path)))
    };
    let planned = |script| planned_in(&Target::new(), script, &[]);
    let makes = "#!/bin/sh\nfor word; do case $word in --saveEngine=*) echo \"$@\" > ${word#*=};; esac; done";
    let target = Target::new();
    let (code, said, files) = planned_in(&target, Some(makes), &[]);
    assert_eq!(
        (code, said.trim()),
        (Some(0), "sequence-stress: tensorrt: made the plan of model 'plan_sequence_int32'")
    );
    let plan = text(&files["/plan_sequence_int32/1/model.plan"]);
    let command = text(&files["/plan_sequence_int32/config.pbtxt"]);
    assert_eq!(format!("# trtexec {}", plan.trim()), command.lines().next().expect("a line"));
    assert!(!files.contains_key("/plan_sequence_int32/trtexec.log"));

    // The plan stays where it would be the same, and only there.
    let (code, said, files) = planned_in(&target, None, &["--force", "--instances", "2"]);
    assert_eq!((code, &*said, text(&files["/plan_sequence_int32/1/model.plan"])), (Some(0), "", plan));
    let (_, said, files) = planned_in(&target, None, &["--force", "--max-batch-size", "4"]);
    assert!(said.contains("no plan yet") && !files.contains_key("/plan_sequence_int32/1/model.plan"), "{said}");

    let (code, said, files) = planned(Some("#!/bin/sh\necho no GPU\nexit 1"));
    assert!(
        said.contains("model 'plan_sequence_int32' has no plan: trtexec failed (exit status: 1): no GPU"),
        "{said}"
    );
    assert!(code == Some(4) && files.contains_key("/plan_sequence_int32/1/model.onnx"), "{code:?}");
    let (code, said, _) = planned(Some("#!/bin/sh\ntrue"));
    assert!(code == Some(4) && said.contains("ended well and left no plan"), "{said}");
    let (code, said, _) = planned(None);
    assert!(code == Some(0) && said.contains("there is no trtexec here, so that 1 model has no plan yet"), "{said}");
}
