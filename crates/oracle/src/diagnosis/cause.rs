//! What may have gone wrong in the server.

workload::table! {
    /// What may have gone wrong in the server, as far as that shows from outside. A row has the class of planted faults that it belongs to.
    pub enum Cause: &'static str {
        /// A step was executed twice.
        ExecutedTwice = "executed-twice", "wrong sum";
        /// The correlation ID was added to a response.
        CorridAdded = "corrid-added", "wrong sum";
        /// A response differs in one bit.
        BitFlipped = "bit-flipped", "wrong sum";
        /// A sum stopped at the limit of its type, and should have wrapped.
        Saturated = "saturated", "wrong sum";
        /// The state that an earlier step left was not kept.
        EffectLost = "effect-lost", "wrong sum";
        /// A step found a state that no known sequence had.
        UnknownState = "unknown-state", "wrong sum";
        /// A sequence has several states, and the model got one of them in the place of another.
        ExchangedStates = "exchanged-states", "wrong sum";
        /// Of several states of a sequence one is not of the last step, or is another sequence's.
        StatesOfSeveralSteps = "states-of-several-steps", "wrong sum";
        /// A step in the middle of a sequence found no state.
        StateReset = "state-reset", "wrong sum";
        /// A response is wrong by a small number, or it alone is wrong: the model computes wrongly.
        WrongArithmetic = "wrong-arithmetic", "wrong sum";
        /// No sequence that is known explains the sum.
        Unexplained = "unexplained", "wrong sum";
        /// A step was answered and not executed.
        NotExecuted = "not-executed", "lost request";
        /// Steps of one sequence were executed in another order than they were sent in.
        OutOfOrder = "out-of-order", "reordering within a sequence";
        /// END was executed before a step that was sent before it.
        EndBeforeLast = "end-before-last", "reordering within a sequence";
        /// START did not reset the state that the ID's previous sequence left.
        StaleStateOfId = "stale-state-of-id", "stale state after a restart";
        /// START did not reset the state that another sequence left in the slot.
        StaleStateOfSlot = "stale-state-of-slot", "stale state after a restart";
        /// A step of an earlier sequence of the ID was executed late, in this one.
        Straggler = "straggler", "stale state after a restart";
        /// Two sequences were given each other's states.
        SwappedStates = "swapped-states", "contamination from another sequence";
        /// A step was given the state of another sequence, which kept it.
        LeakedState = "leaked-state", "contamination from another sequence";
        /// Two sequences have one state: a slot was released twice.
        SharedState = "shared-state", "contamination from another sequence";
        /// A step of another sequence was added to this one's state.
        StrayStep = "stray-step", "contamination from another sequence";
        /// Two sequences of one ID were live at once, which the server allows, and the model keeps state by ID.
        Overlap = "overlapping-sequences", "allowed by the server";
        /// The model was not told START.
        StartNotTold = "start-not-told", "wrong START signal";
        /// The server dropped a START that the client had cancelled, and went on with its sequence.
        StartDropped = "start-dropped", "wrong START signal";
        /// The model was told START in the middle of a sequence.
        StartTold = "start-told-wrongly", "wrong START signal";
        /// END had no effect: the model was not told it, or its sequence went on.
        EndNotTold = "end-not-told", "wrong END signal";
        /// The model was told END in the middle of a sequence.
        EndTold = "end-told-wrongly", "wrong END signal";
        /// A request was handed to the model as not ready.
        ReadyNotTold = "ready-not-told", "wrong READY signal";
        /// An idle slot was handed to the model as ready.
        ReadyTold = "ready-told-wrongly", "wrong READY signal";
        /// The model was told another correlation ID than the request's.
        CorridWrong = "wrong-corrid", "wrong CORRID signal";
        /// The server took a correlation ID for another one.
        IdTakenForAnother = "id-taken-for-another", "wrong CORRID signal";
        /// A step was executed in another slot than its sequence's.
        SlotWrong = "wrong-slot-of-sequence", "wrong slot";
        /// A response was not sent, and later ones of its stream were.
        ResponseDropped = "response-dropped", "lost response";
        /// The server closed a stream with requests under way.
        StreamClosedEarly = "stream-closed-early", "lost response";
        /// The server ended a stream with an error when every response had come.
        StreamEndedBadly = "stream-ended-badly", "lost response";
        /// The server closed a stream at half-close without the responses that were due.
        FinalResponsesLost = "final-responses-lost", "lost response";
        /// A request was answered twice.
        AnsweredTwice = "answered-twice", "duplicated response";
        /// Answers of one stream changed places.
        ResponsesReordered = "responses-reordered", "reordered response";
        /// The response is what another request had to be answered with.
        ResponseOfAnother = "response-of-another", "misaddressed response";
        /// The response was sent on another stream.
        ResponseElsewhere = "response-elsewhere", "misaddressed response";
        /// A response carries an ID that no request has.
        UnknownRequestId = "unknown-request-id", "misaddressed response";
        /// A response carries another model's name.
        OtherModelsName = "other-models-name", "misaddressed response";
        /// A response carries another version of the model.
        OtherVersion = "other-version", "misaddressed response";
        /// A response has no output.
        OutputMissing = "output-missing", "malformed response";
        /// A response's output has another name.
        OutputName = "output-name", "malformed response";
        /// A response has an output that was not asked for, or one twice.
        OutputSurplus = "output-surplus", "malformed response";
        /// An error carries outputs.
        OutputBesideError = "output-beside-error", "malformed response";
        /// A response's output has another type.
        OutputType = "output-type", "malformed response";
        /// A response's output has another shape.
        OutputShape = "output-shape", "malformed response";
        /// A response's output holds more than its shape says.
        OutputTooLong = "output-too-long", "malformed response";
        /// A response's output is cut off.
        OutputTooShort = "output-too-short", "malformed response";
        /// The server rejected the output that its model gave.
        OutputRejected = "output-rejected", "malformed response";
        /// A response was held back, and those behind it.
        ResponseLate = "response-late", "late response";
        /// A step that should be executed was answered with an error.
        ModelError = "model-error", "unexpected error";
        /// An error that was due has other words.
        ErrorText = "error-text", "unexpected code or text";
        /// A stream brings no more responses, and others do.
        StreamDead = "stream-dead", "unexpected code or text";
        /// No call is answered any more, and streams are.
        CallsDead = "calls-dead", "hang";
        /// Answers took longer and longer.
        SlowingDown = "slowing-down", "unexpected code or text";
        /// An instance executes nothing, for a time or for good.
        Stall = "stall", "hang";
        /// The model answers nobody any more.
        ServerHang = "server-hang", "hang";
        /// A stream stayed open after its last response.
        StreamKeptOpen = "stream-kept-open", "hang";
        /// A slot was not given back.
        SlotLeak = "slot-leak", "slot leak";
        /// A slot was kept for a time although its sequence had ended.
        SlotKept = "slot-kept", "slot leak";
        /// More sequences had a slot than there are slots.
        ExtraSlot = "extra-slot", "more slots than configured";
        /// A sequence was ended before its idle limit.
        PrematureReap = "premature-reap", "premature reap";
        /// A sequence lived on past its idle limit.
        MissingReap = "missing-reap", "missing reap";
        /// A step of a live sequence was rejected for want of START.
        SpuriousRejection = "spurious-rejection", "spurious START error";
        /// A sequence is known only on the connection that began it, as where a load balancer sends each connection to another server.
        BoundToConnection = "bound-to-connection", "spurious START error";
        /// Steps of one sequence went to different servers, which do not share sequences.
        SequenceSplit = "sequence-split", "spurious START error";
        /// A START was rejected for want of START.
        StartRejected = "start-rejected", "spurious START error";
        /// A step without START and without a sequence was executed.
        RejectionMissing = "rejection-missing", "missing START error";
        /// A request with a flaw was executed.
        FlawTaken = "flaw-taken", "missing rejection of a flaw";
        /// A step that was rejected for a flaw ended its sequence.
        EndedByRejection = "ended-by-rejection", "sequence lost by a rejection";
        /// A sequence was rejected for a time limit that had not passed.
        ExpiredEarly = "expired-early", "premature time limit";
        /// A sequence was executed although its time limit had passed in the backlog.
        ExpiryMissing = "expiry-missing", "missing time limit";
        /// A sequence waits for a slot while later ones get theirs.
        Starvation = "starvation", "starvation";
        /// The server is gone.
        Crash = "crash", "crash";
        /// The server cut its connections, or was started anew.
        Restart = "restart", "restart";
        /// The server said that it or its model was not ready, and that is not so.
        ReadinessWrong = "readiness-wrong", "wrong readiness";
        /// Another client had a model loaded or unloaded, or the server was ending.
        Unloaded = "unloaded", "wrong readiness";
        /// The server keeps memory for each sequence.
        MemoryLeak = "memory-leak", "memory growth";
        /// The server counted an execution more than once.
        CountedTwice = "counted-twice", "statistics that do not add up";
        /// The model executed more than the client asked for: a retry, or another client.
        ExecutedBesides = "executed-besides", "statistics that do not add up";
        /// Something before the model answered, such as a cache or a gateway.
        AnsweredElsewhere = "answered-elsewhere", "statistics that do not add up";
        /// The server did not count an execution.
        NotCounted = "not-counted", "statistics that do not add up";
        /// The server counts a request as pending that it has answered.
        StillCounted = "still-counted", "statistics that do not add up";
    }
}

impl Cause {
    /// The class that it belongs to, by the words of the planted faults.
    pub fn class(self) -> &'static str {
        self.row()
    }
}
