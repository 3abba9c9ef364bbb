//! As much of JSON as vectors need.

/// A value of JSON
pub(super) enum Json {
    Null,
    Bool(bool),
    /// At most 2^53, so that every reader keeps it.
    Number(u64),
    Text(String),
    List(Vec<Self>),
    Object(Vec<(&'static str, Self)>),
}

pub(super) fn hex(bytes: &[u8]) -> Json {
    Json::Text(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

pub(super) fn text(text: impl Into<String>) -> Json {
    Json::Text(text.into())
}

pub(super) fn number(value: impl Into<u64>) -> Json {
    let value = value.into();
    assert!(value <= 1 << 53, "{value} does not fit a double");
    Json::Number(value)
}

impl Json {
    /// The value on indented lines, with a line break at the end.
    pub(super) fn to_text(&self) -> String {
        let mut out = String::new();
        self.write(0, &mut out);
        out.push('\n');
        out
    }

    fn write(&self, depth: usize, out: &mut String) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Self::Number(value) => out.push_str(&value.to_string()),
            Self::Text(value) => quote(value, out),
            Self::List(values) => write_all('[', ']', values, depth, out, |value, out| {
                value.write(depth + 1, out);
            }),
            Self::Object(fields) => write_all('{', '}', fields, depth, out, |(name, value), out| {
                quote(name, out);
                out.push_str(": ");
                value.write(depth + 1, out);
            }),
        }
    }
}

fn write_all<T>(
    open: char,
    close: char,
    items: &[T],
    depth: usize,
    out: &mut String,
    write: impl Fn(&T, &mut String),
) {
    out.push(open);
    for (index, item) in items.iter().enumerate() {
        out.push_str(if index == 0 { "\n" } else { ",\n" });
        out.push_str(&"  ".repeat(depth + 1));
        write(item, out);
    }
    if !items.is_empty() {
        out.push('\n');
        out.push_str(&"  ".repeat(depth));
    }
    out.push(close);
}

fn quote(value: &str, out: &mut String) {
    out.push('"');
    for character in value.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            '\u{0}'..='\u{1f}' | '\u{7f}'.. => {
                let mut units = [0; 2];
                for unit in character.encode_utf16(&mut units) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
            _ => out.push(character),
        }
    }
    out.push('"');
}
