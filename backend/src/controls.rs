//! What a model is told about a request, and whether that is what the client said.

#![forbid(unsafe_code)]

use crate::{
    boundary::{CorrelationId, Failure, Flags, Request},
    name::Name,
    spec::{Controls, Corrid, Flag},
    tensor::{Datatype, padded, split_text, text_element},
};

/// What the control tensors say. A control that is not declared counts as READY and as neither START nor END.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Told {
    pub(crate) start: bool,
    pub(crate) end: bool,
    pub(crate) ready: bool,
    /// The one element of CORRID, where that is declared.
    pub(crate) corrid: Option<Vec<u8>>,
}

impl Told {
    /// Reads the controls of a request.
    ///
    /// # Errors
    /// When one is not there, or not as the configuration has it.
    pub(crate) fn read(controls: &Controls, request: &Request) -> Result<Self, Failure> {
        let flag = |flag: &Option<Flag>, absent| {
            let Some(flag) = flag else { return Ok(absent) };
            let element = element(request, &flag.tensor, flag.datatype)?;
            flag.says(&element).map_err(Failure::internal)
        };
        Ok(Self {
            start: flag(&controls.start, false)?,
            end: flag(&controls.end, false)?,
            ready: flag(&controls.ready, true)?,
            corrid: controls.corrid.as_ref().map(|corrid| id_element(request, corrid)).transpose()?,
        })
    }

    /// Compares what the model is told with what the client said: `id` is none for an idle slot, of which there is no client.
    ///
    /// # Errors
    /// What differs.
    pub(crate) fn check(&self, controls: &Controls, flags: Flags, id: &CorrelationId) -> Result<(), String> {
        let differs = |name: &Name, told: &str, said: &str| {
            Err(format!("control '{name}' says {told} to the model and the request says {said}"))
        };
        let flags = [
            (&controls.start, self.start, flags.start),
            (&controls.end, self.end, flags.end),
            (&controls.ready, self.ready, !id.is_none()),
        ];
        for (flag, told, said) in flags {
            if let Some(flag) = flag
                && told != said
            {
                return differs(&flag.tensor, &told.to_string(), &said.to_string());
            }
        }
        if let (Some(corrid), Some(told)) = (&controls.corrid, &self.corrid) {
            let (element, said) = match id {
                CorrelationId::Number(number) => (corrid.element(*number), number.to_string()),
                CorrelationId::Text(text) => (text_element(text), format!("'{text}'")),
            };
            if *told != element {
                return differs(&corrid.tensor, &shown(corrid.datatype, told), &said);
            }
        }
        Ok(())
    }

    /// The correlation ID as a number of 64 bits; none where it is a text that is no number.
    pub(crate) fn number(&self, datatype: Datatype) -> Option<i64> {
        let element = self.corrid.as_deref()?;
        match datatype {
            Datatype::Bytes => {
                let text = split_text(element).and_then(|(text, _)| std::str::from_utf8(text).ok())?;
                text.parse().ok().map(u64::cast_signed)
            }
            Datatype::Int32 => element.first_chunk().map(|bytes| i32::from_le_bytes(*bytes).into()),
            Datatype::Uint32 => element.first_chunk().map(|bytes| u32::from_le_bytes(*bytes).into()),
            _ => element.first_chunk().map(|bytes| i64::from_le_bytes(*bytes)),
        }
    }
}

/// The element of a control that is of one element.
fn element(request: &Request, name: &Name, datatype: Datatype) -> Result<Vec<u8>, Failure> {
    let tensor = request.input(name)?;
    if tensor.datatype != datatype {
        return Err(Failure::internal(format!("control '{}' is {} and not {datatype}", name, tensor.datatype)));
    }
    Ok(tensor.data)
}

/// The element of CORRID: a text without what is behind it, because the server fills a text up to its longest.
fn id_element(request: &Request, corrid: &Corrid) -> Result<Vec<u8>, Failure> {
    let element = element(request, &corrid.tensor, corrid.datatype)?;
    if corrid.datatype != Datatype::Bytes {
        return Ok(element);
    }
    let text = split_text(&element).map(|(text, _)| text);
    let text = text.ok_or_else(|| Failure::internal(format!("control '{}' is cut off", corrid.tensor)))?;
    let length = u32::try_from(text.len()).expect("its length was one").to_le_bytes();
    Ok(length.into_iter().chain(text.iter().copied()).collect())
}

fn shown(datatype: Datatype, element: &[u8]) -> String {
    if datatype == Datatype::Bytes {
        return format!("'{}'", String::from_utf8_lossy(element.get(4..).unwrap_or_default()));
    }
    u64::from_le_bytes(padded(element)).to_string()
}
