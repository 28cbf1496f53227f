//! All the orders in which requests of several streams may have been taken in by the server.
//!
//! A request takes effect when it arrives in the scheduler: sums and rejections follow from the order of arrival, where the state
//! belongs to the slot. Streams do not order each other's requests, so the histories that are possible form a graph: a node is
//! what may have been taken in and the state that this left, an edge takes one request more and says what it has to be answered
//! with. An answer makes the graph grow just so far that its request is in every history (those whose answers are not there yet
//! may have come before it), and takes away the histories that say another answer. Orders that lead to the same state share
//! nodes, so their number does not multiply.

use std::collections::{BTreeMap, HashMap};

use super::{
    states::State,
    strays::{CUTS_MAX, Strays},
    stream::{Request, Stream},
};
use workload::{conversation::Lane, event::Nanos, number::Number, sequence::Step};

const LANES: usize = Lane::MAX as usize;
/// The most nodes that are looked at; with more, answers are not determined.
pub(super) const NODES_MAX: usize = 2048;

/// What a request is answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prediction {
    /// It wants a START.
    Rejected,
    /// The sum, where it is known.
    Sum(Option<Number>),
    /// It is rejected for a flaw, and changes nothing.
    Nothing,
}

/// What the server may hold after some requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) state: State,
    /// By lane: the number of the next request to be taken in.
    pub(super) taken: [u64; LANES],
    /// By cut: the index of the next of its requests.
    pub(super) from: [usize; CUTS_MAX],
    pub(super) times: Times,
}

/// What is known of when requests were taken in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Times {
    /// The last request was taken in no earlier than this.
    pub(super) latest: Nanos,
    /// And the last one that was accepted, no earlier than this.
    pub(super) accepted: Nanos,
}

impl Times {
    pub(super) fn earlier(self, other: Self) -> Self {
        Self { latest: self.latest.min(other.latest), accepted: self.accepted.min(other.accepted) }
    }

    /// A request was taken in after all that was before.
    pub(super) fn take(&mut self, sent_at: Nanos, accepted: bool) {
        self.latest = self.latest.max(sent_at);
        if accepted {
            self.accepted = self.latest;
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Edge {
    from: usize,
    to: usize,
    /// Lane, number and answer of the request; none where nobody waits for an answer.
    request: Option<(usize, u64, Prediction)>,
}

/// What an answer is judged by besides the histories.
pub(super) struct Given<'g> {
    pub(super) streams: &'g [Stream],
    pub(super) strays: &'g Strays,
    /// How long a sequence may be idle, where that is known.
    pub(super) idle_limit: Option<Nanos>,
    /// When the answer came.
    pub(super) at: Nanos,
}

/// What the histories say about an answer.
#[derive(Debug)]
pub(super) enum Found {
    /// Some explain it; these were possible.
    Explained(Possibilities),
    /// None does.
    Contradiction(Possibilities),
    TooMany,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Possibilities {
    pub(super) rejection: bool,
    pub(super) any_sum: bool,
    /// In no order, each once.
    pub(super) sums: Vec<Number>,
}

#[derive(Clone, Debug)]
pub(super) struct Histories {
    nodes: Vec<Node>,
    edges: Vec<Edge>,
    /// The nodes that histories begin with.
    roots: Vec<usize>,
    /// The nodes that they end with.
    ends: Vec<usize>,
}

impl Histories {
    pub(super) fn new(nodes: Vec<Node>) -> Self {
        let all: Vec<_> = (0..nodes.len()).collect();
        Self { nodes, edges: Vec::new(), roots: all.clone(), ends: all }
    }

    /// What the server may hold now.
    pub(super) fn ends(&self) -> impl Iterator<Item = &Node> {
        self.ends.iter().map(|&end| &self.nodes[end])
    }

    /// Whether no order is open any more.
    pub(super) fn are_one_set(&self) -> bool {
        self.edges.is_empty()
    }

    pub(super) fn answer(&mut self, given: &Given, request: &Request, answer: Prediction) -> Found {
        let (lane, number) = (request.lane.index(), request.number);
        if !self.extend(given, lane, number) {
            return Found::TooMany;
        }
        let is_it = |edge: &Edge| edge.request.filter(|(of, its, _)| (*of, *its) == (lane, number));
        let mixed = request.mixed && !request.step.start;
        let possibilities = Possibilities::of(self.edges.iter().filter_map(is_it).map(|(.., said)| said), mixed);
        if !possibilities.allow(answer) {
            return Found::Contradiction(possibilities);
        }
        let agrees = |said| match (said, answer) {
            (Prediction::Sum(said), Prediction::Sum(answer)) => mixed || said.is_none() || said == answer,
            (said, answer) => said == answer,
        };
        self.edges.retain(|edge| is_it(edge).is_none_or(|(.., said)| agrees(said)));
        if let Prediction::Sum(Some(sum)) = answer
            && !mixed
        {
            self.learn(lane, number, sum);
        }
        self.prune();
        Found::Explained(possibilities)
    }

    /// Lets the histories go on until the request is taken in in each; returns whether they are few enough to be looked at.
    fn extend(&mut self, given: &Given, lane: usize, number: u64) -> bool {
        let has_it = |node: &Node| node.taken[lane] > number;
        let old = std::mem::take(&mut self.ends);
        let mut growth = Growth { places: HashMap::new(), levels: BTreeMap::new() };
        for end in old {
            growth.place(end, &self.nodes[end]);
        }
        while let Some((_, mut level)) = growth.levels.pop_first() {
            let mut next = 0;
            while let Some(&at) = level.get(next) {
                next += 1;
                let node = self.nodes[at];
                if has_it(&node) {
                    self.ends.push(at);
                    continue;
                }
                for silent in node.silently(given) {
                    let to = self.reach(&mut growth, silent, &mut level, at);
                    self.edges.push(Edge { from: at, to, request: None });
                }
                if self.nodes.len() > NODES_MAX {
                    return false;
                }
            }
            level.sort_unstable();
            level.dedup();
            self.ends.sort_unstable();
            self.ends.dedup();
            for at in level {
                let node = self.nodes[at];
                if has_it(&node) {
                    continue;
                }
                for (of, stream) in given.streams.iter().enumerate() {
                    let taken = node.taken[of];
                    let Some(request) = stream.get(taken) else { continue };
                    let (mut then, said) = node.take(request);
                    then.taken[of] += 1;
                    let to = self.reach(&mut growth, then, &mut Vec::new(), at);
                    self.edges.push(Edge { from: at, to, request: Some((of, taken, said)) });
                }
            }
        }
        self.nodes.len() <= NODES_MAX
    }

    /// The place of a node, which may be there already: then it stands for both. A node that changes in the level that is
    /// worked on is looked at again.
    fn reach(&mut self, growth: &mut Growth, node: Node, level: &mut Vec<usize>, by: usize) -> usize {
        let Some(&there) = growth.places.get(&(node.state, node.taken)) else {
            self.nodes.push(node);
            let new = self.nodes.len() - 1;
            if node.taken == self.nodes[by].taken {
                growth.places.insert((node.state, node.taken), new);
                level.push(new);
            } else {
                growth.place(new, &node);
            }
            return new;
        };
        let known = &mut self.nodes[there];
        let mut both = *known;
        both.times = both.times.earlier(node.times);
        both.from = std::array::from_fn(|cut| both.from[cut].min(node.from[cut]));
        if (both.times, both.from) != (known.times, known.from) {
            *known = both;
            level.push(there);
        }
        there
    }

    /// A step was answered with a sum: where it was the last one of a state whose sum is not known, it is now.
    fn learn(&mut self, lane: usize, number: u64, sum: Number) {
        for &end in &self.ends {
            if self.nodes[end].state != State::Live(None) {
                continue;
            }
            let mut came_by = self.edges.iter().filter(|edge| edge.to == end).peekable();
            let is_it = |edge: &Edge| matches!(edge.request, Some((of, its, _)) if (of, its) == (lane, number));
            if came_by.peek().is_some() && came_by.all(is_it) {
                self.nodes[end].state = State::Live(Some(sum));
            }
        }
    }

    /// Takes away what lies on no way from a beginning to an end.
    fn prune(&mut self) {
        let forward = self.reachable(&self.roots, |edge| (edge.from, edge.to));
        let backward = self.reachable(&self.ends, |edge| (edge.to, edge.from));
        let is_kept = forward.iter().zip(&backward).map(|(one, other)| *one && *other);
        let mut free = 0..;
        let places: Vec<_> = is_kept.map(|is_kept| if is_kept { free.next() } else { None }).collect();
        let mut place = places.iter();
        self.nodes.retain(|_| place.next().is_some_and(Option::is_some));
        let moved = |edge: &Edge| Some(Edge { from: places[edge.from]?, to: places[edge.to]?, ..*edge });
        self.edges = self.edges.iter().filter_map(moved).collect();
        for list in [&mut self.roots, &mut self.ends] {
            *list = list.iter().filter_map(|&node| places[node]).collect();
        }
    }

    fn reachable(&self, from: &[usize], direction: impl Fn(&Edge) -> (usize, usize)) -> Vec<bool> {
        let mut next = vec![Vec::new(); self.nodes.len()];
        for edge in &self.edges {
            let (near, far) = direction(edge);
            next[near].push(far);
        }
        let mut seen = vec![false; self.nodes.len()];
        let mut open = from.to_vec();
        while let Some(node) = open.pop() {
            if !std::mem::replace(&mut seen[node], true) {
                open.extend(&next[node]);
            }
        }
        seen
    }

    /// Forgets how histories began as far as no answer can tell any more.
    pub(super) fn forget_settled(&mut self, streams: &[Stream]) {
        let settled = |edge: &Edge| edge.request.is_none_or(|(lane, number, _)| streams[lane].is_settled(number));
        let is_settled: Vec<_> = self.edges.iter().map(settled).collect();
        let mut leaving = vec![Vec::new(); self.nodes.len()];
        for (index, edge) in self.edges.iter().enumerate() {
            leaving[edge.from].push(index);
        }
        let mut is_root = vec![false; self.nodes.len()];
        let mut open = std::mem::take(&mut self.roots);
        while let Some(root) = open.pop() {
            if std::mem::replace(&mut is_root[root], true) {
                continue;
            }
            open.extend(leaving[root].iter().filter(|edge| is_settled[**edge]).map(|edge| self.edges[*edge].to));
            if self.ends.contains(&root) || leaving[root].iter().any(|edge| !is_settled[*edge]) {
                self.roots.push(root);
            }
        }
        // What does not begin a history stays, settled or not.
        let stays = |(edge, is_settled): (&Edge, &bool)| (!is_settled || !is_root[edge.from]).then_some(*edge);
        self.edges = self.edges.iter().zip(&is_settled).filter_map(stays).collect();
        self.prune();
    }

    /// The stream of a lane is cut: what each history has not taken in of it are strays now.
    pub(super) fn cut(&mut self, lane: usize, stream: &Stream, cut: Option<usize>) {
        let end = stream.end();
        for node in &mut self.nodes {
            let taken = usize::try_from(node.taken[lane].saturating_sub(stream.first)).unwrap_or(usize::MAX);
            if let Some(cut) = cut {
                let unanswered = stream.requests.iter().take(taken).filter(|request| request.counts());
                node.from[cut] = unanswered.filter(|request| request.fate != super::stream::Fate::Answered).count();
            }
            node.taken[lane] = end;
        }
    }

    /// Sums are not known any more: another sequence of the ID may change them.
    pub(super) fn forget_sums(&mut self) {
        for node in &mut self.nodes {
            if let State::Live(sum) = &mut node.state {
                *sum = None;
            }
        }
    }
}

/// The nodes that are being looked at.
struct Growth {
    places: HashMap<(State, [u64; LANES]), usize>,
    /// By how much is taken in.
    levels: BTreeMap<u64, Vec<usize>>,
}

impl Growth {
    fn place(&mut self, at: usize, node: &Node) {
        self.places.insert((node.state, node.taken), at);
        self.levels.entry(node.taken.iter().sum()).or_default().push(at);
    }
}

impl Node {
    fn take(&self, request: &Request) -> (Self, Prediction) {
        let mut then = *self;
        let step = &request.step;
        let (state, said) =
            if request.counts() { after(self.state, step, request.mixed) } else { (self.state, Prediction::Nothing) };
        then.state = state;
        then.times.take(request.sent_at, matches!(said, Prediction::Sum(_)));
        (then, said)
    }

    /// What may become of it while nothing is taken in that is waited for: its sequence is reaped, or something comes that is
    /// left of a stream that was cut; that may be noticed to be cancelled, and its sequence with it.
    fn silently(&self, given: &Given) -> Vec<Self> {
        let mut all = Vec::new();
        let idle = given.at.saturating_sub(self.times.accepted);
        if self.state != State::Absent && given.idle_limit.is_none_or(|limit| idle >= limit) {
            all.push(Self { state: State::Absent, ..*self });
        }
        for (place, cut) in given.strays.cuts.iter().enumerate().filter(|(_, cut)| self.times.latest < cut.until) {
            for (index, request) in cut.requests.iter().enumerate().skip(self.from[place]) {
                let (mut then, said) = self.take(request);
                if said == Prediction::Rejected {
                    continue;
                }
                then.from[place] = index + 1;
                all.extend([then, Self { state: State::Absent, ..then }]);
            }
        }
        all
    }
}

/// The state after a step, and what the step is answered with.
fn after(state: State, step: &Step, mixed: bool) -> (State, Prediction) {
    let sum = match state {
        _ if step.start => Some(step.value),
        State::Absent => return (State::Absent, Prediction::Rejected),
        State::Live(sum) => sum.filter(|_| !mixed).map(|sum| sum.wrapping_add(step.value)),
    };
    let then = if step.end { State::Absent } else { State::Live(sum.filter(|_| !mixed)) };
    (then, Prediction::Sum(sum))
}

impl Possibilities {
    fn of(said: impl Iterator<Item = Prediction>, mixed: bool) -> Self {
        let mut all = Self::default();
        for said in said {
            match said {
                Prediction::Nothing => {}
                Prediction::Rejected => all.rejection = true,
                Prediction::Sum(None) => all.any_sum = true,
                Prediction::Sum(Some(_)) if mixed => all.any_sum = true,
                Prediction::Sum(Some(sum)) => all.sums.push(sum),
            }
        }
        all.sums.sort_unstable_by_key(|sum| sum.value());
        all.sums.dedup();
        all
    }

    fn allow(&self, answer: Prediction) -> bool {
        match answer {
            Prediction::Nothing => true,
            Prediction::Rejected => self.rejection,
            Prediction::Sum(sum) => self.any_sum || sum.is_some_and(|sum| self.sums.contains(&sum)),
        }
    }
}

#[cfg(test)]
mod tests;
