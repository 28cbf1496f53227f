//! Every key of a scenario file, in one place: what `scenarios --keys` prints, and what error messages say of a key.

use crate::conversation::Transport;

/// A key of a scenario file.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Where it stands; `patterns.common` and `claims` take names as keys.
    pub path: &'static str,
    takes: &'static str,
    /// What it is for.
    pub what: &'static str,
}

impl Key {
    /// What it takes.
    pub fn takes(&self) -> String {
        self.takes.replace("TRANSPORT", &Transport::listed("\""))
    }
}

macro_rules! keys {
    ($($path:literal $takes:literal $what:literal;)*) => {
        /// All keys, table by table.
        pub const KEYS: &[Key] = &[$(Key { path: $path, takes: $takes, what: $what }),*];
    };
}

keys! {
    "target.endpoint" "text, or a list of texts" "the server's endpoint, HOST:PORT or grpc://HOST:PORT for gRPC, http://HOST:PORT for HTTP, or several of them: workers and their contexts take those of a kind in turn; replaced by -u";
    "target.model" "text" "the model's name; replaced by -m";
    "target.metrics" "text" "where the server tells its metrics over HTTP, HOST:PORT; then requests that are left pending are found";
    "target.controls" "true or false" "whether a model that says what it saw of each request (START, END, READY, CORRID, slot) is asked for that";
    "target.headers" "list of \"NAME: VALUE\"" "headers that are sent with every call; a VALUE of $VARIABLE, or Bearer $VARIABLE, is the environment's; added to by -H";
    "target.tls.ca" "a file's path" "the certificates, as PEM, of the authorities that are trusted, in place of the system's; replaced by --ca";
    "target.tls.client_cert" "a file's path" "the client's certificate, as PEM; replaced by --client-cert";
    "target.tls.client_key" "a file's path" "its key, as PEM; replaced by --client-key";
    "target.tls.server_name" "text" "the name that the server's certificate has to be for, where it is not the endpoint's host; replaced by --server-name";
    "target.compression" "\"none\", \"gzip\" or \"deflate\"" "how messages are compressed, both ways; replaced by --compression";
    "target.connect_timeout_ms" "ms" "how long the making of a connection may take; without it limits.connect_ms";
    "target.keep_alive_ms" "ms" "how often a gRPC connection is asked whether it is still there; without it never";
    "target.keep_alive_timeout_ms" "ms" "how long that may stay unanswered until the connection is given up; without it 20 s";
    "target.message_bytes_max" "1 up" "the largest message that is taken, in bytes; without it 4 MiB over gRPC and 16 MiB over HTTP";
    "load.workers" "1 to 100000" "tasks that run one iteration after the other; replaced by -t";
    "load.iterations" "1 up" "iterations of each worker, each one draw from the patterns; replaced by -i";
    "load.duration_s" "1 up" "seconds after which no iteration is begun; replaced by --duration";
    "contexts.common" "number" "correlation IDs of each worker that are used all the time";
    "contexts.rare" "number" "correlation IDs of each worker that are used in turn, so seldom that their sequences go idle";
    "contexts.rare_probability" "0 to 1" "the odds that an iteration goes to the next rare one";
    "correlation_ids.first" "1 up" "the first correlation ID of worker 0";
    "correlation_ids.block" "1 up" "how many correlation IDs belong to one worker";
    "correlation_ids.form" "\"integer\", \"text\", \"text-128\", \"non-ascii\", \"one-bit\", \"alike\" or \"nul\"" "what correlation IDs are on the wire: text-128 is as long as a text may be, and those of one-bit, alike and nul are nearly the same";
    "patterns.common" "table of weights" "how often each pattern is drawn on common IDs; one that is left out is not drawn";
    "patterns.rare" "table of weights" "how often each pattern is drawn on rare IDs; one that is left out is not drawn";
    "length.min" "1 to 1000000" "the fewest steps of a sequence";
    "length.max" "1 to 1000000" "the most steps of a sequence";
    "length.constant" "number" "always as many steps";
    "length.uniform" "{ min, max }" "any number of steps from min to max";
    "length.normal" "{ mean, stdev }" "normally distributed numbers of steps";
    "length.log-normal" "{ median, sigma }" "mostly short sequences, now and then a very long one";
    "length.geometric" "{ mean }" "after each step the sequence goes on with the same odds";
    "length.list" "list of numbers" "one of these numbers of steps";
    "values.uniform" "{ min, max }" "inputs from min to max, which the model's type has modulo its width";
    "values.list" "list of numbers" "one of these inputs, likewise";
    "values.elements" "{ min, max }" "over how many elements, 1 to 1024, an input is spread where the model's shape leaves that open: each has to be answered with the sum; without it one";
    "sending.transport" "TRANSPORT" "how steps travel: over a stream, or as calls, each when the one before it is answered, http in JSON; replaced by --transport [default: grpc-stream; http-binary where there is no gRPC endpoint]";
    "sending.stream" "\"per-sequence\" or \"per-context\"" "how long a gRPC stream lives";
    "sending.connection" "\"per-context\" or \"per-worker\"" "who shares a connection";
    "sending.reuse" "\"pipelined\" or \"after-response\"" "when an ID's next START is sent: at once, or after the END's answer";
    "sending.window" "\"all\" or 1 up" "how many steps of a sequence may be unanswered at a time";
    "think.step_ms" "{ constant = 5 }, or another draw" "how long a worker does nothing before each step but a sequence's first, from when sending.window has room for it, in ms";
    "think.iteration_ms" "{ constant = 5 }, or another draw" "how long a worker does nothing before each iteration, in ms";
    "network.latency_ms" "{ constant = 5 }, or another draw" "how long each piece is under way between client and server, each way, in ms; at most 10000";
    "network.bandwidth_kib_s" "1 up" "how many KiB pass in a second, each way";
    "network.slice_bytes" "1 up" "pieces of at most so many bytes, each written by itself, 64 of what comes at once";
    "network.cut.after_ms" "{ constant = 5 }, or another draw" "a connection is cut so long after it was made, in ms";
    "network.cut.after_bytes" "{ constant = 5 }, or another draw" "a connection is cut when so many bytes have passed, both ways together";
    "network.cut.by" "\"rst\" or \"fin\"" "whether it is reset (the default), or closed in good order";
    "network.black_hole.after_ms" "{ constant = 5 }, or another draw" "from so long after a connection was made nothing passes any more, in ms";
    "network.black_hole.after_bytes" "{ constant = 5 }, or another draw" "from so many bytes on nothing passes any more";
    "network.black_hole.for_ms" "{ constant = 5 }, or another draw" "for how long nothing passes, in ms, at most 60000; without it until the client gives the connection up";
    "thresholds.sequence_ms" "table of ms" "how long a sequence may take, by percentile: p50, p90, p99, p99_9, max; a threshold";
    "thresholds.slot_wait_ms" "table of ms" "how long a START may wait for its slot, by percentile: p50, p90, p99, p99_9, max; a threshold";
    "limits.lost_after_ms" "ms" "a response is lost after this and the longest lawful wait";
    "limits.step_ms" "ms" "what one step may take in the server, the model's own execution delay not counted";
    "limits.connect_ms" "ms" "for each call before and after the run";
    "limits.drain_ms" "ms" "for what is still under way when the run is interrupted";
    "limits.settle_ms" "ms" "for the model's statistics to settle after the last response";
    "limits.quiet_ms" "ms" "how long nobody else may use the model before and after the run";
    "limits.response_ms" "ms" "a threshold: a response that takes longer misses it; replaced by --response-limit";
    "slots.check" "true or false" "whether the model's slots are counted after the run";
    "slots.max" "1 to 10000" "a model with more slots is left alone";
    "slots.wait_ms" "ms" "the longest idle limit that is waited for where sequences were left without END";
    "slots.idle_limit_search" "true or false" "whether the idle limit that the server really keeps is searched for after the run";
    "claims" "table of numbers" "how often the run has to reach what, by its responses; docs/SCENARIOS.md has all of them";
    "claims_from" "0 up" "how many iterations a run has to have before a missed claim makes its verdict unknown; flags that change the size of the run set it to the scenario's own size";
    "phase" "list of tables, [[phase]] each" "parts of the run in time: each begins when the workers of the one before it are done";
    "phase.name" "text" "what populations and reports call it";
    "phase.pause_ms" "ms" "how long its workers rest before they begin";
    "phase.server" "\"reload\", \"reload-direct\", \"reload-oldest\" or \"restart\"" "what is done to the server after the pause, before its workers begin";
    "population" "list of tables, [[population]] each" "workers that are alike, each with tables load, contexts, patterns, length, values, sending, think, network and thresholds of its own";
    "population.name" "text" "what reports call them";
    "population.phase" "text" "the phase in which they work; without it they work from the start";
}

/// What the key at a path is for; of a population's, what it is for at the top.
pub(super) fn key_at(path: &str) -> Option<&'static Key> {
    let listed = |list: &str| path.strip_prefix(list)?.strip_prefix('[')?.split_once("].").map(|(_, rest)| rest);
    let of_its_own = |list: &str| Some(format!("{list}.{}", listed(list)?));
    // A population has keys of its own, and those of the file.
    let own = ["phase", "population"].into_iter().find_map(of_its_own);
    if let Some(key) = own.and_then(|own| KEYS.iter().find(|key| key.path == own)) {
        return Some(key);
    }
    let path = listed("population").unwrap_or(path);
    let is_in = |key: &&Key| path == key.path || path.strip_prefix(key.path).is_some_and(|rest| rest.starts_with('.'));
    KEYS.iter().filter(is_in).max_by_key(|key| key.path.len())
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, env, fs};

    use super::*;
    use crate::scenario::{DEFAULT, Overrides, Scenario, Source};

    /// The paths of a table, down to where names are keys and to distributions.
    fn paths(table: &toml::Table, path: &str, out: &mut BTreeSet<String>) {
        for (key, value) in table {
            let here = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            match value {
                _ if KEYS.iter().any(|known| known.path == here && !["phase", "population"].contains(&known.path)) => {
                    _ = out.insert(here);
                }
                toml::Value::Table(inner) => paths(inner, &here, out),
                _ => _ = out.insert(here),
            }
        }
    }

    #[test]
    fn the_key_of_transports_names_them_all() {
        let key = KEYS.iter().find(|key| key.path == "sending.transport").expect("a key");
        let takes = key.takes();
        let named: Vec<_> = takes.split('"').skip(1).step_by(2).collect();
        assert_eq!(named, Transport::NAMES);
    }

    #[test]
    fn every_key_is_described_and_nothing_else() {
        let mut found = BTreeSet::new();
        paths(&DEFAULT.parse().expect("TOML"), "", &mut found);
        let more = [
            "target.endpoint = 'grpcs://h:1'\ntarget.tls = { ca = 'a', client_cert = 'b', client_key = 'c', server_name = 'd' }
             target.headers = ['a: b']\ntarget.compression = 'gzip'\ntarget.connect_timeout_ms = 1\ntarget.keep_alive_ms = 1
             target.keep_alive_timeout_ms = 1\ntarget.message_bytes_max = 1",
            "target.metrics = 'a:1'\nload.duration_s = 1\nlimits.response_ms = 1\nclaims.backlog = 1\nvalues.list = [1]\nvalues.elements = { min = 1, max = 2 }\nsending.transport = 'grpc-unary'",
            "length.constant = 1",
            "length.uniform = { min = 1, max = 2 }",
            "length.log-normal = { median = 1, sigma = 1 }",
            "length.geometric = { mean = 1 }",
            "length.list = [1]",
            "thresholds = { sequence_ms.p50 = 1, slot_wait_ms.max = 1 }",
            "network.latency_ms.constant = 1\nnetwork.bandwidth_kib_s = 1\nnetwork.slice_bytes = 1\nnetwork.cut.after_ms.constant = 1
             network.cut.after_bytes.constant = 1\nnetwork.cut.by = 'fin'\nnetwork.black_hole.after_ms.constant = 1
             network.black_hole.after_bytes.constant = 1\nnetwork.black_hole.for_ms.constant = 1",
        ];
        for text in more {
            Scenario::resolve(&Source::from_text("test", text), Overrides::default()).expect("a scenario");
            paths(&text.parse().expect("TOML"), "", &mut found);
        }
        let described: BTreeSet<_> = KEYS.iter().map(|key| key.path.to_owned()).collect();
        let listed = [
            "phase",
            "phase.name",
            "phase.pause_ms",
            "phase.server",
            "population",
            "population.name",
            "population.phase",
        ];
        found.extend(listed.map(str::to_owned));
        assert_eq!(described, found);
    }

    /// A page of all keys, a table of them for each table of the file.
    fn page() -> String {
        let defaults: toml::Table = DEFAULT.parse().expect("TOML");
        let default = |path: &str| {
            let mut names = path.split('.');
            let first = defaults.get(names.next()?)?;
            let value = names.try_fold(first, |value, name| value.get(name))?;
            let text = value.to_string();
            Some(format!("`{}`", if text.len() > 60 { "…" } else { text.as_str() }))
        };
        let cell = |text: &str| text.replace('|', "\\|");
        let head = "# Keys of a scenario file\n\n`sequence-stress scenarios --keys` prints the same. [Scenarios](SCENARIOS.md) says how \
                    to use them.\nThe defaults are those of [l0-sequence-stress](../scenarios/l0-sequence-stress.toml); `…` stands for \
                    a\ntable there. A test writes this page with `SEQUENCE_STRESS_GENERATE=1`.\n";
        let mut parts = vec![head.to_owned()];
        let mut table = "";
        for Key { path, takes, what } in KEYS {
            let of = path.split('.').next().unwrap_or(path);
            if of != table {
                table = of;
                parts.push(format!("\n## {table}\n\n| key | takes | default | |\n|---|---|---|---|\n"));
            }
            let default = default(path).unwrap_or_default();
            parts.push(format!("| `{path}` | {} | {} | {} |\n", cell(takes), cell(&default), cell(what)));
        }
        parts.concat()
    }

    #[test]
    fn the_page_of_keys_is_that_of_the_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/SCENARIOS-KEYS.md");
        if env::var_os("SEQUENCE_STRESS_GENERATE").is_some() {
            fs::write(path, page()).expect("a file");
        }
        assert!(
            fs::read_to_string(path).is_ok_and(|kept| kept == page()),
            "docs/SCENARIOS-KEYS.md is not that of the table: run SEQUENCE_STRESS_GENERATE=1 scripts/test \
             workload::scenario::reference, and commit the file"
        );
    }

    #[test]
    fn a_key_is_found_wherever_it_stands() {
        let path = |path| key_at(path).map(|key| key.path);
        assert_eq!(path("load.workers"), Some("load.workers"));
        assert_eq!(path("population[3].load.workers"), Some("load.workers"));
        assert_eq!(path("population[3].phase"), Some("population.phase"));
        assert_eq!(path("phase[0].pause_ms"), Some("phase.pause_ms"));
        assert_eq!(path("length.normal.mean"), Some("length.normal"));
        assert_eq!((path("patterns.common.valid"), path("patterns")), (Some("patterns.common"), None));
    }
}
