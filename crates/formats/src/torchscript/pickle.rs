//! Python objects as pickles of protocol 2, as far as TorchScript needs them.

/// An object.
#[derive(Clone, Debug)]
pub(super) enum Object {
    /// A class or a function, by module and name.
    Global(&'static str, &'static str),
    None,
    Truth(bool),
    Integer(u32),
    Text(String),
    Tuple(Vec<Object>),
    /// What a function gives for these arguments.
    Call(Box<Object>, Vec<Object>),
    /// An object of a class, with its attributes.
    Instance(Box<Object>, Vec<(String, Object)>),
    /// What the reader finds elsewhere.
    Persistent(Box<Object>),
}

/// The pickle of an object.
pub(super) fn pickle(object: &Object) -> Vec<u8> {
    let mut bytes = vec![0x80, 2];
    write(object, &mut bytes);
    bytes.push(b'.');
    bytes
}

fn write(object: &Object, bytes: &mut Vec<u8>) {
    match object {
        Object::Global(module, name) => bytes.extend(format!("c{module}\n{name}\n").into_bytes()),
        Object::None => bytes.push(b'N'),
        Object::Truth(truth) => bytes.push(if *truth { 0x88 } else { 0x89 }),
        Object::Integer(number) => {
            bytes.push(b'J');
            bytes.extend(number.to_le_bytes());
        }
        Object::Text(text) => {
            bytes.push(b'X');
            bytes.extend(u32::try_from(text.len()).expect("texts are short").to_le_bytes());
            bytes.extend(text.as_bytes());
        }
        Object::Tuple(items) => {
            bytes.push(b'(');
            for item in items {
                write(item, bytes);
            }
            bytes.push(b't');
        }
        Object::Call(function, arguments) => {
            write(function, bytes);
            write(&Object::Tuple(arguments.clone()), bytes);
            bytes.push(b'R');
        }
        Object::Instance(class, attributes) => {
            write(class, bytes);
            // An object of the class made of nothing, and a dictionary that fills it.
            bytes.extend(b")\x81}(");
            for (name, value) in attributes {
                write(&Object::Text(name.clone()), bytes);
                write(value, bytes);
            }
            bytes.extend(b"ub");
        }
        Object::Persistent(key) => {
            write(key, bytes);
            bytes.push(b'Q');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Object, pickle};

    #[test]
    fn objects_are_written_as_python_reads_them() {
        let class = Object::Global("module", "Name");
        let object =
            Object::Instance(Box::new(class), vec![("a".into(), Object::Integer(5)), ("b".into(), Object::None)]);
        assert_eq!(pickle(&object), b"\x80\x02cmodule\nName\n)\x81}(X\x01\0\0\0aJ\x05\0\0\0X\x01\0\0\0bNub.");
        let call = Object::Call(Box::new(Object::Global("m", "f")), vec![Object::Truth(true)]);
        assert_eq!(pickle(&Object::Persistent(Box::new(call))), b"\x80\x02cm\nf\n(\x88tRQ.");
    }
}
