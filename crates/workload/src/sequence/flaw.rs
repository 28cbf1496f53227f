//! The flaws that a request can have.

table! {
    /// What is wrong with a request, so that the server has to reject it before it looks at the request's sequence.
    pub enum Flaw: Row {
        /// Two elements in one batch.
        BatchOfTwo = "batch-2", Row("must specify batch-size 1 due to requirements of sequence batcher", &[Flaw::BATCH_OF_ONE]);
        /// Another type of as many bytes: FP32 in place of INT32.
        OtherType = "other-type", Row("data-type is", &[]);
        /// A shape of one dimension more.
        OtherShape = "other-shape", Row("unexpected shape for input", &[]);
        /// Fewer bytes than an element has.
        ShortData = "short-data", Row("input byte size mismatch for input", &[Flaw::SHORT_TEXT, Flaw::NO_TEXT, Flaw::UNREADABLE]);
        /// No input at all.
        // Where some are optional the server says between which numbers it expects them.
        NoInput = "no-input", Row("but got 0 inputs", &[]);
        /// An input that the model does not have.
        OtherInput = "other-input", Row("unexpected inference input 'NO_SUCH_INPUT'", &[]);
        /// It asks for an output that the model does not have.
        OtherOutput = "other-output", Row("unexpected inference output 'NO_SUCH_OUTPUT'", &[]);
        /// A version of the model that there is not.
        OtherVersion = "other-version", Row("version 999 is not found", &[]);
        /// Correlation ID 0.
        IdZero = "id-0", Row("must specify a non-zero or non-empty correlation ID", &[Flaw::OF_ANOTHER_TYPE]);
        /// A correlation ID that is a text without a character.
        IdEmpty = "id-empty", Row("must specify a non-zero or non-empty correlation ID", &[Flaw::OF_ANOTHER_TYPE]);
        /// A correlation ID that is a text of 129 bytes.
        IdTooLong = "id-129-bytes", Row("string correlation ID cannot be longer than 128 characters", &[Flaw::OF_ANOTHER_TYPE]);
        /// A correlation ID that is neither a number nor a text.
        IdOfOtherType = "id-bool", Row("invalid value type for 'sequence_id' parameter", &[Flaw::UNREADABLE]);
    }
}

/// What the rejection of a flaw has to say, and what it may say instead. Servers may say more.
struct Row(&'static str, &'static [&'static str]);

impl Flaw {
    /// What two elements in one batch are rejected with where a model takes one, and that is looked at first.
    pub const BATCH_OF_ONE: &'static str = "inference request batch-size must be <= 1 for";
    /// The rejection, since 25.01, of a text as the correlation ID of a model that is told numbers, and the other way round. The server
    /// looks at the type before it looks whether the ID is empty.
    pub const OF_ANOTHER_TYPE: &'static str = "sequence batching control 'CORRID' data-type is";
    /// What too few bytes are rejected with where elements are texts, which have their lengths before them.
    pub const SHORT_TEXT: &'static str = "incomplete string length indicator for inference input";
    /// What is said of data in JSON that has no text where there is to be one.
    pub const NO_TEXT: &'static str = "string elements for inference input";
    /// What the rejection of a request over HTTP says whose JSON cannot be read as what it should be.
    pub const UNREADABLE: &'static str = "Unable to parse '";

    /// What the rejection has to say; servers may say more.
    pub fn rejection(self) -> &'static str {
        self.row().0
    }

    /// What the rejection may say: one of these.
    pub fn rejections(self) -> impl Iterator<Item = &'static str> {
        let Row(rejection, otherwise) = self.row();
        std::iter::once(*rejection).chain(otherwise.iter().copied())
    }

    /// Whether an error is its rejection.
    pub fn is_rejected_with(self, text: &str) -> bool {
        self.rejections().any(|rejection| text.contains(rejection))
    }
}
