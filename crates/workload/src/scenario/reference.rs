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
    "target.endpoint" "text, or a list of texts" "the server: HOST:PORT or grpc://HOST:PORT for gRPC, http://HOST:PORT for HTTP; several endpoints share the load; -u replaces it";
    "target.replicas" "text, or a list of texts" "the servers that the endpoint leads to, one endpoint each, if they are several; the tool adds up their counts and slots; without target.endpoint they share the load; --replicas replaces it";
    "target.sequence_header" "text" "header in which the client sends the correlation ID, with each call and each stream, for load balancers; --sequence-header replaces it";
    "target.server_header" "text" "header of responses that names the server which gave the response; --server-header replaces it";
    "target.model" "text" "name of the model; -m replaces it";
    "target.version" "1 up" "version of the model that requests name; --model-version replaces it [default: the newest that the server has]";
    "target.metrics" "text" "the server's metrics, HOST:PORT, to find requests that stay pending; --metrics-url replaces it";
    "target.controls" "true or false" "whether the tool asks a model for the controls that it saw (START, END, READY, CORRID, slot), if the model reports them";
    "target.headers" "list of \"NAME: VALUE\"" "headers of every call; $VARIABLE and Bearer $VARIABLE take the value from the environment; -H adds to them";
    "target.tls.ca" "a file's path" "trust the CA certificates in this PEM file instead of the system's; --ca replaces it";
    "target.tls.client_cert" "a file's path" "client certificate (PEM); --client-cert replaces it";
    "target.tls.client_key" "a file's path" "key of the client certificate (PEM); --client-key replaces it";
    "target.tls.server_name" "text" "name that the server's certificate must have, if it is not the endpoint's host; --server-name replaces it";
    "target.compression" "\"none\", \"gzip\" or \"deflate\"" "compression of requests and responses; --compression replaces it";
    "target.connect_timeout_ms" "ms" "longest time to make a connection [default: limits.connect_ms]";
    "target.keep_alive_ms" "ms" "interval of HTTP/2 pings on a gRPC connection [default: no pings]";
    "target.keep_alive_timeout_ms" "ms" "the client gives a connection up if a ping gets no answer for this long [default: 20 s]";
    "target.message_bytes_max" "1 up" "largest response in bytes [default: 4 MiB over gRPC, 16 MiB over HTTP]";
    "load.workers" "1 to 100000" "number of workers; each runs one iteration after the other; -c replaces it";
    "load.iterations" "1 up" "iterations of each worker, or with load.rate of all workers together; each draws one pattern; -i replaces it";
    "load.duration_s" "1 up" "no iteration begins after this many seconds; -d replaces it";
    "load.rate" "text" "open loop: iterations begin at this rate, whether or not earlier ones are done: \"200/s\", a ramp \"10..500/s:2m\", or stages \"10/s:30s,20/s:30s\"; load.workers is the largest number at a time; --rate replaces it";
    "load.arrivals" "\"constant\" or \"poisson\"" "with load.rate: equal intervals (the default), or a Poisson process; --arrivals replaces it";
    "load.step_interval_ms" "ms" "each step of an iteration is due this long after the one before it, whether or not that has its response; --step-interval replaces it";
    "load.step_jitter_ms" "ms" "a step may be due up to this much later; --step-jitter replaces it";
    "contexts.common" "number" "correlation IDs of each worker that it uses all the time";
    "contexts.rare" "number" "correlation IDs of each worker that it uses in turn and so seldom that their sequences go idle";
    "contexts.rare_probability" "0 to 1" "probability that an iteration uses the next rare correlation ID";
    "correlation_ids.first" "1 up" "first correlation ID of worker 0";
    "correlation_ids.block" "1 up" "number of correlation IDs of each worker";
    "correlation_ids.form" "\"integer\", \"text\", \"text-128\", \"non-ascii\", \"one-bit\", \"alike\" or \"nul\"" "form of the IDs on the wire: text-128 has the greatest length; IDs of one-bit, alike and nul are nearly the same";
    "patterns.common" "table of weights" "weight of each pattern on common IDs; a pattern that is left out is not drawn";
    "patterns.rare" "table of weights" "weight of each pattern on rare IDs; a pattern that is left out is not drawn";
    "length.min" "1 to 1000000" "fewest steps of a sequence";
    "length.max" "1 to 1000000" "most steps of a sequence";
    "length.constant" "number" "this number of steps, always";
    "length.uniform" "{ min, max }" "any number of steps from min to max";
    "length.normal" "{ mean, stdev }" "normally distributed number of steps";
    "length.log-normal" "{ median, sigma }" "mostly short sequences, now and then a very long one";
    "length.geometric" "{ mean }" "after each step the sequence goes on with the same probability";
    "length.list" "list of numbers" "one of these numbers of steps";
    "values.uniform" "{ min, max }" "inputs from min to max, modulo the width of the model's type";
    "values.list" "list of numbers" "one of these inputs, modulo the width of the model's type";
    "values.elements" "{ min, max }" "number of elements of an input, 1 to 1024, if the model's shape is open; each element of the response has to be the sum [default: 1]";
    "sending.transport" "TRANSPORT" "how steps travel: on a stream, or as calls, each after the response to the one before; http sends JSON; --transport replaces it [default: grpc-stream; http-binary if all endpoints are HTTP]";
    "sending.stream" "\"per-sequence\" or \"per-context\"" "lifetime of a gRPC stream";
    "sending.connection" "\"per-context\" or \"per-worker\"" "who shares a connection";
    "sending.reuse" "\"pipelined\" or \"after-response\"" "when the next START of an ID is sent: at once, or after the response to END";
    "sending.window" "\"all\" or 1 up" "most steps of a sequence without a response at a time";
    "sending.deadline_ms" "{ constant = 5 }, or another draw" "deadline in ms of a stream, or of each call, of the pattern deadline [default: any from 1 to 30]";
    "think.step_ms" "{ constant = 5 }, or another draw" "pause in ms before each step but a sequence's first; it begins when sending.window has room";
    "think.iteration_ms" "{ constant = 5 }, or another draw" "pause in ms before each iteration";
    "network.latency_ms" "{ constant = 5 }, or another draw" "latency in ms of each piece of data in each direction, at most 10000";
    "network.bandwidth_kib_s" "1 up" "bandwidth in each direction, in KiB/s";
    "network.slice_bytes" "1 up" "largest piece of data in bytes; each piece is written by itself, at most 64 pieces of one read";
    "network.cut.after_ms" "{ constant = 5 }, or another draw" "age in ms at which the network cuts a connection";
    "network.cut.after_bytes" "{ constant = 5 }, or another draw" "number of bytes, both directions together, after which the network cuts a connection";
    "network.cut.by" "\"rst\" or \"fin\"" "a reset (rst, the default) or a graceful close (fin)";
    "network.black_hole.after_ms" "{ constant = 5 }, or another draw" "age in ms from which on a connection passes no data";
    "network.black_hole.after_bytes" "{ constant = 5 }, or another draw" "number of bytes from which on a connection passes no data";
    "network.black_hole.for_ms" "{ constant = 5 }, or another draw" "how long in ms a connection passes no data, at most 60000 [default: until the client gives it up]";
    "fail_if" "list of thresholds" "the run fails with exit code 5 if one of them holds, such as 'step.p99 > 50ms'; docs/THRESHOLDS.md has the form; --fail-if adds to the list";
    "limits.lost_after_ms" "ms" "shortest timeout for a response; the longest wait on a correct server counts, too";
    "limits.step_ms" "ms" "longest time of one step in the server, without the model's own execution delay";
    "limits.connect_ms" "ms" "timeout of each call before and after the run";
    "limits.drain_ms" "ms" "how long an interrupted run waits for responses";
    "limits.settle_ms" "ms" "how long the tool waits for the model's statistics to settle after the last response";
    "limits.quiet_ms" "ms" "how long nobody else may use the model before and after the run";
    "limits.response_ms" "ms" "threshold: exit code 5 if a response takes longer; --response-limit replaces it";
    "limits.reconnect_ms" "ms" "how long a server that goes away is waited for; without it that is a violation at once; --reconnect replaces it";
    "slots.check" "true or false" "whether the tool counts the model's slots after the run";
    "slots.max" "1 to 10000" "the tool does not count the slots of a model with more slots";
    "slots.wait_ms" "ms" "longest idle limit that the tool waits for before it counts the slots";
    "slots.idle_limit_search" "true or false" "whether the tool measures the idle limit after the run";
    "claims" "table of numbers" "how often the run has to reach each claim; docs/PATTERNS.md lists the claims";
    "claims_from" "0 up" "a missed claim makes the verdict unknown from this many iterations on; flags that change the size of the run set it to the scenario's own size";
    "phase" "list of tables, [[phase]] each" "parts of the run in time; each begins when the workers of the phase before it are done";
    "phase.name" "text" "name of the phase in reports";
    "phase.pause_ms" "ms" "pause before the phase's workers begin";
    "phase.server" "\"reload\", \"reload-direct\", \"reload-oldest\", \"more-instances\", \"unload\", \"kill-stub\" or \"restart\"" "what the tool does to the server after the pause: reload the model, also with another strategy or more instances, unload and load it, kill an instance of it, or restart the server";
    "phase.other_model" "text" "another model, which the tool unloads and loads again and again while the phase's workers run";
    "population" "list of tables, [[population]] each" "workers that are alike, with their own tables load, contexts, patterns, length, values, sending, think and network";
    "population.name" "text" "name of the population in reports";
    "population.fail_if" "list of thresholds" "thresholds for the population's own requests";
    "population.version" "1 up" "version of the model that the population sends to; populations of different versions send the same correlation IDs; if one population has the key, all have it, and target.version is left out";
    "population.phase" "text" "phase in which its workers run [default: from the start]";
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
             target.replicas = ['h:1', 'i:1']\ntarget.sequence_header = 'a-b'\ntarget.server_header = 'c'\ntarget.headers = ['a: b']\ntarget.compression = 'gzip'\ntarget.connect_timeout_ms = 1\ntarget.keep_alive_ms = 1
             target.keep_alive_timeout_ms = 1\ntarget.message_bytes_max = 1",
            "target.metrics = 'a:1'\nload.duration_s = 1\nlimits.response_ms = 1\nlimits.reconnect_ms = 1\nclaims.backlog = 1\nvalues.list = [1]\nvalues.elements = { min = 1, max = 2 }\nsending.transport = 'grpc-unary'\nsending.deadline_ms.constant = 5",
            "load = { rate = '5/s', arrivals = 'poisson', step_interval_ms = 10, step_jitter_ms = 1 }",
            "length.constant = 1",
            "length.uniform = { min = 1, max = 2 }",
            "length.log-normal = { median = 1, sigma = 1 }",
            "length.geometric = { mean = 1 }",
            "length.list = [1]",
            "claims_from = 1",
            "target.version = 1",
            "fail_if = ['step.p99 > 1s']\n[[population]]\nname = 'a'\nfail_if = ['sequence.p50 > 1s']",
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
            "phase.other_model",
            "phase.pause_ms",
            "phase.server",
            "population",
            "population.fail_if",
            "population.name",
            "population.phase",
            "population.version",
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
