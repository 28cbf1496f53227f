//! What happens to the objects: requests arrive, are given to the backend and taken back, and who owes what is counted.

use std::{
    collections::BTreeMap,
    ffi::{CString, c_uint},
};

use super::{
    Account, Answer, Ask, Error, INTERNAL, Input, Memory, Output, Rejection, Request, Sleeping, Table, World, c,
    handle, wrong,
};

impl World {
    pub(in crate::boundary) const fn new() -> Self {
        Self {
            api: (1, 19),
            output_memory: c::MEMORY_CPU,
            state_memory: c::MEMORY_CPU,
            to_fail: None,
            gives_nothing: None,
            clock_panics_at: None,
            clock_readings: 0,
            sleeping: Sleeping::Real,
            slept: Vec::new(),
            has_hung: false,
            calls: BTreeMap::new(),
            wrongs: Vec::new(),
            log: Vec::new(),
            returned: Vec::new(),
            accounts: BTreeMap::new(),
            rescheduled: Vec::new(),
            batches: Vec::new(),
            errors: Table::new("error"),
            models: Table::new("model"),
            instances: Table::new("instance"),
            messages: Table::new("message"),
            requests: Table::new("request"),
            inputs: Table::new("input"),
            responses: Table::new("response"),
            factories: Table::new("factory"),
            outputs: Table::new("output"),
            states: Table::new("state"),
            is_failing: false,
        }
    }

    /// A new request, which is the server's yet.
    pub(in crate::boundary) fn arrive(&mut self, ask: Ask) -> usize {
        let inputs = ask.inputs.iter().map(|tensor| {
            let mut rest = &tensor.data[..];
            let mut buffers = Vec::new();
            for cut in &tensor.cuts {
                let (buffer, behind) = rest.split_at(*cut);
                buffers.push(Memory::of(buffer));
                rest = behind;
            }
            buffers.push(Memory::of(rest));
            self.inputs.add(Input { tensor: tensor.clone(), buffers })
        });
        let inputs = inputs.collect();
        let number = self.requests.add(Request { ask, inputs, is_given: false, answers: 0 });
        self.accounts.insert(number, Account::default());
        number
    }

    /// Writes another content into an input of a request.
    pub(in crate::boundary) fn tell(&mut self, request: usize, name: &str, data: &[u8]) {
        let request = self.requests.alive.get(&request).filter(|request| !request.is_given);
        let place = request.and_then(|request| request.ask.inputs.iter().position(|tensor| tensor.name == name));
        if let (Some(request), Some(place)) = (request, place)
            && let Some(input) = self.inputs.alive.get_mut(&request.inputs[place])
        {
            input.buffers = vec![Memory::of(data)];
        }
    }

    /// Gives requests to the backend, to be executed.
    pub(in crate::boundary) fn give(&mut self, requests: &[usize]) {
        for number in requests {
            if let (Some(request), Some(account)) = (self.requests.alive.get_mut(number), self.accounts.get(number)) {
                (request.is_given, request.answers) = (true, account.answers.len());
            }
        }
    }

    /// The execution of these requests failed: they are the server's, untouched, and it ends them.
    pub(in crate::boundary) fn take_back(&mut self, requests: &[usize]) {
        for number in requests {
            let account = self.accounts.entry(*number).or_default();
            account.is_left = true;
            let before = self.requests.peek(*number).map(|request| request.answers);
            if account.finals > 0 || Some(account.answers.len()) != before {
                self.wrongs.push(format!("request {number} was answered and left to the server"));
            }
            let left = self.responses.alive.values().any(|response| response.request == *number)
                || self.factories.alive.values().any(|request| request == number);
            if left {
                self.wrongs.push(format!("request {number} was left to the server with a response"));
            }
            if let Err(Rejection::Wrong(what)) = self.release(*number, "left to the server") {
                self.wrongs.push(what);
            }
        }
    }

    /// What is wrong when nothing goes on any more.
    pub(in crate::boundary) fn wrongs_at_the_end(&self) -> Vec<String> {
        let mut wrongs = self.wrongs.clone();
        wrongs.extend(self.errors.left("was not deleted"));
        wrongs.extend(self.messages.left("was not deleted"));
        wrongs.extend(self.responses.left("was neither sent nor deleted"));
        wrongs.extend(self.factories.left("was not deleted"));
        for (number, account) in self.accounts.iter().filter(|(_, account)| !account.is_left) {
            if account.finals != 1 {
                wrongs.push(format!("request {number} got {} final answers", account.finals));
            }
            if account.releases != 1 {
                wrongs.push(format!("request {number} was released {} times", account.releases));
            }
        }
        let models = self.models.alive.values().filter(|model| !model.state.0.is_null());
        let instances = self.instances.alive.values().filter(|instance| !instance.state.0.is_null());
        if models.count() + instances.count() > 0 {
            wrongs.push("a model or an instance still has its state".to_owned());
        }
        wrongs
    }

    /// Takes an error that the backend returned.
    pub(in crate::boundary) fn take_error(&mut self, error: *mut c::Error) -> Result<(), (c_uint, String)> {
        if error.is_null() {
            return Ok(());
        }
        match self.errors.end(error.addr(), "returned") {
            Ok(error) => Err((error.code, error.text.to_string_lossy().into_owned())),
            Err(Rejection::Wrong(what) | Rejection::Error(what)) => {
                self.wrongs.push(what.clone());
                Err((INTERNAL, what))
            }
        }
    }

    pub(super) fn error(&mut self, code: c_uint, text: &str) -> *mut c::Error {
        let text = CString::new(text).unwrap_or_default();
        handle(self.errors.add(Error { code, text }))
    }

    /// A request that is the backend's.
    pub(super) fn request(&mut self, request: *mut c::Request) -> Result<&mut Request, Rejection> {
        let number = request.addr();
        let request = self.requests.get(number)?;
        if request.is_given {
            Ok(request)
        } else {
            Err(wrong(format!("request {number} is used while it is the server's")))
        }
    }

    pub(super) fn release(&mut self, number: usize, how: &'static str) -> Result<(), Rejection> {
        for input in self.requests.end(number, how)?.inputs {
            self.inputs.end(input, "released with its request")?;
        }
        let states: Vec<_> = self.states.alive.iter().filter(|(_, state)| state.request == number).collect();
        for state in states.into_iter().map(|(state, _)| *state).collect::<Vec<_>>() {
            self.states.end(state, "released with its request")?;
        }
        Ok(())
    }

    pub(super) fn answer(&mut self, request: usize, answer: Answer) {
        let account = self.accounts.entry(request).or_default();
        if account.finals > 0 {
            self.wrongs.push(format!("request {request} is answered after its final answer"));
        }
        account.finals += usize::from(answer.is_final);
        if !self.is_failing {
            account.answers.push(answer);
        }
    }

    pub(super) fn end_outputs(&mut self, outputs: Vec<usize>) -> Result<Vec<Output>, Rejection> {
        outputs.into_iter().map(|output| self.outputs.end(output, "sent or deleted with its response")).collect()
    }

    pub(super) fn check_times(&mut self, times: [u64; 4]) {
        if times[0] == 0 || !times.is_sorted() {
            self.wrongs.push(format!("the reported times are {times:?}"));
        }
    }
}
