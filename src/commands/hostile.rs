//! `sequence-stress hostile`: requests that have ended real servers, one at a time.

use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};

use super::{
    Failure, PROGRAM,
    output::{print, say_error},
    prepare::{restart, start_server},
    resolve, runtime,
};
use crate::{
    cli::{HostileArgs, PlanArgs, quoted},
    hostile::{Effect, Named, Sent, Tried, send_all},
    report::{describe, write_hostile},
};
use wire::hostile::{Came, Hostile};
use workload::{scenario::Target, seed::Seed, whole_file::write_whole};

pub(super) fn hostile(args: &HostileArgs) -> Result<u8, Failure> {
    if !args.yes_this_may_end_the_server {
        return Err(Failure::wrong_input(
            "hostile sends requests that have ended real servers: give --yes-this-may-end-the-server, and a server that nobody else needs",
        ));
    }
    if let Some(folder) = &args.reports {
        let problem = |error| format!("cannot make the folder {} for reports: {error}", folder.display());
        fs::create_dir_all(folder).map_err(problem).map_err(Failure::wrong_input)?;
    }
    let plan = PlanArgs { concurrency: None, iterations: None, random_seed: args.random_seed, scenario: None };
    let (_, mut scenario, seed) = resolve(&plan, args.endpoint.overrides())?;
    if let Some(http) =
        args.endpoint.http_from_environment.clone().filter(|http| !scenario.target.endpoint.all().contains(http))
    {
        scenario.target.endpoint.add(http);
    }
    let server = args.endpoint.embedded.then(|| start_server(&args.endpoint, seed)).transpose()?;
    if let Some(server) = &server {
        scenario.target.embed(server.address, server.http);
    }
    let requests = requests(args);
    let target = scenario.target.clone();
    let (counts, answers) = (Counts::default(), BTreeMap::new());
    let mut told = Told { args, target: &target, seed, counts, answers, problem: None };
    let restart = restart(&args.endpoint, None);
    let tried = runtime()?
        .block_on(send_all(
            &scenario,
            args.endpoint.hints(),
            (&requests, seed),
            restart.as_ref(),
            &mut |tried, sent| told.sent(tried, &sent),
        ))
        .map_err(|error| Failure::of_run(error, &scenario.target.endpoint))?;
    let Counts { sent, ended, harmed } = told.counts;
    let left = requests.len() - sent;
    print(|out| {
        let width = Hostile::NAMES.iter().map(|name| name.len()).max().unwrap_or(0);
        let server = tried.server.as_deref().unwrap_or("a server that does not tell its name");
        let verdict = if ended + harmed == 0 { "SURVIVED" } else { "INVALID" };
        writeln!(
            out,
            "{verdict}: {sent} hostile requests to {server} beside {} live sequences (seed {seed})",
            tried.live
        )?;
        writeln!(out, "  ended the server   {ended}")?;
        writeln!(out, "  harmed others      {harmed}")?;
        for (kind, answers) in &told.answers {
            let count: usize = answers.values().sum();
            let answers: Vec<_> = answers.iter().map(|(answer, count)| format!("{answer}: {count}")).collect();
            writeln!(out, "  {kind:width$} {count:3}  {}", answers.join(", "))?;
        }
        if left > 0 {
            writeln!(out, "  not sent           {left}: the server is gone; --restart-command starts it again")?;
        }
        Ok(())
    });
    if let Some(problem) = told.problem {
        say_error(&problem);
    }
    Ok(u8::from(ended + harmed > 0))
}

/// The requests that were asked for, kind by kind.
fn requests(args: &HostileArgs) -> Vec<Named> {
    let kinds = if args.only.is_empty() { Hostile::ALL.to_vec() } else { args.only.clone() };
    let numbers = args.number.map_or(0..=args.neighbours, |number| number..=number);
    kinds.into_iter().flat_map(|kind| numbers.clone().map(move |number| Named { kind, number })).collect()
}

#[derive(Default)]
struct Counts {
    sent: usize,
    ended: usize,
    harmed: usize,
}

/// What was printed and written so far.
struct Told<'a> {
    args: &'a HostileArgs,
    target: &'a Target,
    seed: Seed,
    counts: Counts,
    /// How often each kind was answered in which way.
    answers: BTreeMap<Hostile, BTreeMap<String, usize>>,
    /// Why a report could not be written, if one could not.
    problem: Option<String>,
}

impl Told<'_> {
    fn sent(&mut self, tried: &Tried, sent: &Sent) {
        let Named { kind, number } = sent.request;
        self.counts.sent += 1;
        let came = match sent.came {
            Some(Came::Status(status)) => format!("HTTP {status}"),
            Some(Came::Ended) => "the connection ended".to_owned(),
            Some(Came::Nothing) => "no answer".to_owned(),
            None => "no connection".to_owned(),
        };
        *self.answers.entry(kind).or_default().entry(came.clone()).or_default() += 1;
        let (what, lines) = match &sent.effect {
            Effect::None => return,
            Effect::EndedTheServer(why) => {
                self.counts.ended += 1;
                ("ENDED the server", vec![why.clone()])
            }
            Effect::HarmedOthers(violations) => {
                self.counts.harmed += 1;
                ("HARMED others", violations.iter().map(describe).collect())
            }
        };
        let mut again = vec![format!(
            "{PROGRAM} hostile --yes-this-may-end-the-server --only {kind} --number {number} -r {}",
            self.seed
        )];
        again.push(format!("-m {}", quoted(&self.target.model)));
        again.extend(self.target.version.map(|version| format!("--model-version {version}")));
        if self.args.endpoint.embedded {
            again.push("--embedded".to_owned());
            again.extend(self.args.endpoint.server_flags(self.seed));
        } else {
            again.extend(self.target.endpoint.all().iter().map(|endpoint| format!("-u {endpoint}")));
        }
        let again = again.join(" ");
        print(|out| {
            writeln!(
                out,
                "{what}: {kind} number {number} ({}, {}), seed {}",
                kind.class(),
                kind.published(),
                self.seed
            )?;
            writeln!(out, "  kind           {}", kind.what())?;
            writeln!(out, "  answer         {came}")?;
            for line in &lines {
                writeln!(out, "  others saw     {line}")?;
            }
            writeln!(out, "  again          {again}")
        });
        if let Some(folder) = &self.args.reports {
            let path = folder.join(format!("{kind}-{}-{number}.md", self.seed));
            if let Err(problem) = write_report(&path, tried, sent, self.seed, &lines) {
                self.problem.get_or_insert(problem);
            }
        }
    }
}

fn write_report(path: &Path, tried: &Tried, sent: &Sent, seed: Seed, lines: &[String]) -> Result<(), String> {
    let written = write_whole(path, |file| write_hostile(tried, sent, seed, lines, file));
    written.map_err(|error| format!("cannot write the report {}: {error}", PathBuf::from(path).display()))
}
