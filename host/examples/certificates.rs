//! Prints the certificates of a peer that DNS holds, in hexadecimal digits, or nothing:
//! `cargo run --example certificates -- 9.9.9.9:53 ring.example PUBLIC_KEY`

use std::env;
use std::process::ExitCode;

use data_encoding::HEXLOWER_PERMISSIVE;
use selfsame_host::BoxError;
use selfsame_host::admission::{NameServers, Resolver};

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match print_certificates(&arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn print_certificates(arguments: &[String]) -> Result<(), BoxError> {
    let [server, domain, key] = arguments else {
        return Err("usage: certificates SERVER:PORT DOMAIN PUBLIC_KEY".into());
    };
    let key = HEXLOWER_PERMISSIVE.decode(key.as_bytes())?;
    let key = key
        .try_into()
        .map_err(|_| "a public key has 64 hexadecimal digits")?;
    let resolver = Resolver::new(NameServers::at([server.parse()?])?)?;
    let certificates = resolver.certificates(&key, domain).await?;
    for certificate in &certificates.values {
        println!("{}", HEXLOWER_PERMISSIVE.encode(certificate));
    }
    Ok(())
}
