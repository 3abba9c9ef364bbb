//! The table of error codes for people: `docs/errors.md`.

use selfsame_codec::{Class, Code};

const HEAD: &str = "# Errors

What a program, a command or a log names when something goes wrong. This page is made from the table in `guest/codec`.

A code has a number, a name that does not change, and a class: whose fault it is. In TypeScript an error is a
`MeshError` with `name`, `code` (the number), `class` and `message`; in Rust `selfsame_host::Code`; in JSON both stand beside each
other. A peer is told the class alone ([codec](specification/codec.md#error-classes)); the log of the node where it
happened has the code and the text, at level debug when all that happened is that bytes from outside were dropped.
`status` counts how often each occurred.
";

/// Classes in their order, with what one may do.
const CLASSES: &[(Class, &str)] = &[
    (
        Class::Usage,
        "The application or host used its node wrongly: correct the call or the configuration.",
    ),
    (
        Class::Malformed,
        "Bytes from outside do not follow the specification: they were dropped.",
    ),
    (
        Class::Misbehaved,
        "A peer sent well-formed bytes that it must not send: they were dropped, or its session ended.",
    ),
    (
        Class::Incompatible,
        "A peer speaks another network, version or suite, or is another peer.",
    ),
    (
        Class::Unreachable,
        "Nobody answered: trying again later, or another provider, may help.",
    ),
    (
        Class::Limit,
        "A limit was reached: wait, or spread the load over more nodes.",
    ),
    (
        Class::Store,
        "The store failed: the node cannot go on before that is mended.",
    ),
    (Class::Service, "A service refused, failed, or is not there."),
];

pub(super) fn page() -> String {
    let mut out = HEAD.to_owned();
    for (class, meaning) in CLASSES {
        out.push_str(&format!(
            "\n## {class:?}\n\n{meaning}\n\n| number | name | text |\n|---|---|---|\n"
        ));
        for code in Code::ALL.iter().filter(|code| code.class() == *class) {
            let number = code.as_u16();
            out.push_str(&format!(
                "| 0x{number:04x} | `{}` | {} |\n",
                code.name(),
                code.text()
            ));
        }
    }
    out
}
