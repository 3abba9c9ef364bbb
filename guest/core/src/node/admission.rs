//! Membership of a closed network: this node's certificate, and the sessions of peers whose certificates end.

use alloc::vec::Vec;

use selfsame_codec::{Admission, Code, Config, LogLevel};

use super::Node;
use super::connection::Connection;
use super::timers::Timer;
use crate::admission::{Gate, KNOWS_CLOSED};
use crate::identity::{Identity, PublicKey};
use crate::record::CLOCK_SKEW_MS;

/// The key of the network's authority; none in an open network.
pub(super) fn authority_of(config: &Config) -> Result<Option<PublicKey>, Code> {
    let key = <[u8; 32]>::try_from(&config.authority[..]).map(PublicKey).ok();
    match config.admission {
        Admission::Open
            if config.authority.is_empty() && config.certificate.is_empty() && !config.confirms =>
        {
            Ok(None)
        }
        Admission::Dns if KNOWS_CLOSED && key.is_some() => Ok(key),
        Admission::Open | Admission::Dns => Err(Code::BadConfig),
    }
}

/// Gives an identity the certificate of the configuration, if the network is closed.
pub(super) fn certify(
    identity: &mut Identity,
    authority: Option<PublicKey>,
    config: &Config,
) -> Result<(), Code> {
    let mut gate = Gate::new(identity.network(), authority);
    let Some(certificate) = gate.admit(&identity.public(), &config.certificate)? else {
        return Ok(());
    };
    certificate.check_fits(config.role, &config.addresses)?;
    certificate.give_to(identity)
}

impl Node {
    /// Whether the network admits this node now.
    pub(super) fn check_admitted(&self) -> Result<(), Code> {
        let (admitted, wall_ms) = (self.identity.admitted(), self.clock.wall_ms);
        if !KNOWS_CLOSED {
            Ok(())
        } else if wall_ms.saturating_add(CLOCK_SKEW_MS) < admitted.since_ms {
            Err(Code::EarlyCertificate)
        } else if wall_ms >= admitted.until_ms {
            Err(Code::ExpiredCertificate)
        } else {
            match self.ring.refusal_of(&self.identity.public(), &admitted) {
                Some(code) => Err(code),
                None => Ok(()),
            }
        }
    }

    /// The command `Certify`: goes on with a new certificate for the same id.
    pub(super) fn renew_certificate(&mut self, tag: u32, bytes: &[u8]) -> Result<(), Code> {
        let certificate = self.ring.gate().admit(&self.identity.public(), bytes)?;
        let certificate = certificate.ok_or(Code::BadCertificate)?;
        certificate.check_current(self.clock.wall_ms)?;
        if certificate.id() != self.identity.id() {
            return Err(Code::WrongSeat);
        }
        certificate.give_to(&mut self.identity)?;
        self.refusals.clear();
        self.ring_with(|ring, cx| ring.certificate_renewed(cx));
        self.watch_own_certificate();
        self.reply(tag, &[]);
        Ok(())
    }

    /// The command `Revoke`: takes a list of revocations.
    pub(super) fn revoke_command(&mut self, tag: u32, list: &[u8]) -> Result<(), Code> {
        if let Err(code) = self.ring_with(|ring, cx| ring.revoke(cx, list)) {
            self.out.log(LogLevel::Warn, code, 0, "a list of revocations");
            return Err(code);
        }
        self.reply(tag, &[]);
        Ok(())
    }

    /// Looks at this node's certificate again when it expires.
    pub(super) fn watch_own_certificate(&mut self) {
        let until_ms = self.identity.admitted().until_ms;
        if KNOWS_CLOSED && until_ms != u64::MAX {
            self.timers.set(self.own_ms(until_ms), Timer::OwnCertificate);
        }
    }

    /// Stops if the network admits this node no more.
    pub(super) fn check_own_certificate(&mut self) {
        match self.check_admitted() {
            Ok(()) => self.watch_own_certificate(),
            Err(code) => self.stop_for(code),
        }
    }

    /// Looks at a peer's certificate again when it expires.
    pub(super) fn watch_certificate(&mut self, index: u32) {
        let until_ms = self.connections.get(&index).map(Connection::admitted_until_ms);
        let Some(until_ms) = until_ms.filter(|until_ms| KNOWS_CLOSED && *until_ms != u64::MAX) else {
            return;
        };
        let at_ms = self.own_ms(until_ms);
        if let Some(connection) = self.connections.get_mut(&index) {
            connection.certificate_ms = at_ms;
            self.timers.set(at_ms, Timer::Certificate(index));
        }
    }

    /// Ends a session whose peer's certificate has expired, unless the peer has shown a new one since.
    pub(super) fn check_certificate(&mut self, index: u32) {
        let Some(connection) = self.connections.get_mut(&index) else {
            return;
        };
        let record = self.ring.record_of(&connection.session.peer());
        if let Some(record) = record.filter(|record| record.admitted().until_ms > self.clock.wall_ms) {
            connection.session.set_admitted(record.admitted());
            return self.watch_certificate(index);
        }
        self.close_connection(index, Code::ExpiredCertificate);
    }

    /// Ends the sessions of all whom the list of revocations or a conviction shuts out.
    pub(super) fn shut_out(&mut self) {
        let ring = &self.ring;
        let refusal = |(index, connection): (&u32, &Connection)| {
            let session = &connection.session;
            let why = ring.refusal_of(&session.peer_key(), &session.admitted());
            why.map(|why| (*index, why))
        };
        let refused: Vec<(u32, Code)> = self.connections.iter().filter_map(refusal).collect();
        for (index, why) in refused {
            self.close_connection(index, why);
        }
        if let Err(why @ (Code::RevokedCertificate | Code::Convicted)) = self.check_admitted() {
            self.stop_for(why);
        }
    }

    /// This node's time when the host's clock will say `wall_ms`.
    pub(super) fn own_ms(&self, wall_ms: u64) -> u64 {
        self.now_ms
            .saturating_add(wall_ms.saturating_sub(self.clock.wall_ms))
    }
}
