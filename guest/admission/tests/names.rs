//! Names of records.

use selfsame_admission::dns::Name;
use selfsame_codec::Code;

#[test]
fn names_of_records_stand_below_the_domain() {
    let name = Name::of_peer(&[9; 32], "Ring.Example").expect("a name");
    let label = "beeqscijbeeqscijbeeqscijbeeqscijbeeqscijbeeqscijbeeq";
    assert_eq!(name.to_string(), format!("{label}.ring.example"));
    let name = Name::of_authority("ring.example").expect("a name");
    assert_eq!(name.to_string(), "_authority.ring.example");
    let mut key = [0; 32];
    key[31] = 1;
    let name = Name::of_peer(&key, "x").expect("a name");
    assert_eq!(name.to_string(), format!("{}q.x", "a".repeat(51)));
}

#[test]
fn domains_are_those_of_hosts() {
    let longest = format!(
        "{}.{}.{}.{}",
        "a".repeat(63),
        "b".repeat(63),
        "c".repeat(63),
        "d".repeat(8)
    );
    assert_eq!(longest.len(), 200);
    for domain in [
        "x",
        "a-b.c1",
        "xn--bcher-kva.example",
        "1.2.3",
        "A.B",
        longest.as_str(),
    ] {
        assert!(Name::of_peer(&[0; 32], domain).is_ok(), "{domain}");
    }
    let longer = format!("{longest}d");
    let label = "a".repeat(64);
    for domain in [
        "",
        ".",
        "a.",
        ".a",
        "a..b",
        "-a.b",
        "a-.b",
        "a_b.c",
        "a b",
        "a\u{fc}.b",
        "a/b",
        "a\"b",
        "a\0b",
        longer.as_str(),
        label.as_str(),
    ] {
        assert_eq!(
            Name::of_peer(&[0; 32], domain).err(),
            Some(Code::BadDomain),
            "{domain}"
        );
        assert_eq!(
            Name::of_authority(domain).err(),
            Some(Code::BadDomain),
            "{domain}"
        );
    }
}

#[test]
fn names_fit_messages() {
    let longest = [
        ["a"; 63].concat(),
        ["b"; 63].concat(),
        ["c"; 63].concat(),
        ["d"; 61].concat(),
    ]
    .join(".");
    assert_eq!(longest.len(), 253);
    assert_eq!(Name::parse(&longest).expect("a name").to_string(), longest);
    for text in [&format!("{longest}d"), "", "a..b", "a b", "a.b.", "a\\.b"] {
        assert_eq!(Name::parse(text).err(), Some(Code::BadDomain), "{text}");
    }
    assert_eq!(Name::parse("A.b"), Name::parse("a.B"));
    assert_ne!(Name::parse("a.b"), Name::parse("ab"));
}
