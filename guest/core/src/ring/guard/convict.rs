//! Who has contradicted itself is convicted: the evidence is stored, spreads from member to member as lists of revocations do, and
//! everybody who has verified it refuses the key until the authority certifies it anew.

use alloc::vec::Vec;

use selfsame_codec::{Code, LogLevel};

use super::super::message::Request;
use super::super::{Action, Call, Context, Ring};
use super::message::{MAX_CONVICTIONS, MAX_GIVEN, ToldConviction, encode_contradictions};
use super::{Contradiction, Lease};
use crate::admission::MAX_CERTIFICATE_LIFE_MS;
use crate::gather::Gather as _;
use crate::identity::PeerId;

impl Ring {
    /// Two leases of a leader differ.
    pub(super) fn found_contradiction(
        &mut self,
        cx: &mut Context<'_>,
        certificate: &[u8],
        one: &Lease,
        other: &Lease,
    ) {
        let evidence = Contradiction::of(certificate, one, other);
        if let Err(code) = self.convict(cx, &evidence) {
            self.log(
                LogLevel::Debug,
                code,
                "leases differ and convict nobody",
                Some(one.terms().leader),
            );
        }
    }

    /// Takes evidence, and passes it on if it convicts somebody anew; says whether it does.
    ///
    /// # Errors
    /// [`Code::TooLarge`] if too many are convicted already, or what is wrong with the evidence; see [`Contradiction::verify`].
    fn convict(&mut self, cx: &mut Context<'_>, evidence: &[u8]) -> Result<bool, Code> {
        if !self.is_guarded() {
            return Err(Code::BadMessage);
        }
        let taken = self.take_contradiction(cx.wall_ms, evidence);
        let convicted = match taken {
            Ok(convicted) => convicted,
            // It is refused already.
            Err(Code::Convicted | Code::RevokedCertificate) => return Ok(false),
            Err(code) => return Err(code),
        };
        self.put_contradiction(&convicted);
        self.log(
            LogLevel::Warn,
            Code::Convicted,
            "convicted a peer",
            Some(convicted.leader()),
        );
        self.tell_convicted(&convicted);
        self.shut_out(cx);
        let mut told = self.routing.all();
        told.extend(self.attach.relays());
        told.extend(self.attach.leaves());
        for peer in told {
            self.ask_for_contradictions(peer);
        }
        Ok(true)
    }

    /// Takes up a conviction that the store tells of.
    pub(in super::super) fn load_contradiction(
        &mut self,
        cx: &mut Context<'_>,
        evidence: &[u8],
    ) -> Result<(), Code> {
        if !self.is_guarded() {
            return Err(Code::StaleRecord);
        }
        // Whatever the clock says now, it has been verified before.
        match self.take_contradiction(u64::MAX, evidence) {
            Ok(convicted) => {
                self.tell_convicted(&convicted);
                self.shut_out(cx);
            }
            Err(Code::Convicted) => {}
            Err(code) => return Err(code),
        }
        Ok(())
    }

    /// Tells the host, now and at each start.
    fn tell_convicted(&mut self, convicted: &Contradiction) {
        self.actions.push_back(Action::Convicted {
            evidence: convicted.encoded().to_vec(),
        });
    }

    fn take_contradiction(&mut self, now_ms: u64, evidence: &[u8]) -> Result<Contradiction, Code> {
        let convicted = Contradiction::verify(&mut self.gate, evidence, now_ms)?;
        let public = convicted.public();
        let known = &mut self.guard.convictions;
        // Nobody is let go for another: who has many keys could buy one of them free.
        if known.len() >= MAX_CONVICTIONS && !known.contains_key(&public) {
            return Err(Code::TooLarge);
        }
        self.gate.convict(public, convicted.before_ms());
        known.insert(public, convicted.clone());
        self.guard.held.forget(&convicted.leader());
        Ok(convicted)
    }

    /// Forgets convictions in whose place a list of revocations stands, and those that concern no certificate any more.
    pub(in super::super) fn expire_convictions(&mut self, now_ms: u64) {
        let gate = &mut self.gate;
        let actions = &mut self.actions;
        self.guard.convictions.retain(|public, convicted| {
            let is_over = convicted.before_ms().saturating_add(MAX_CERTIFICATE_LIFE_MS) < now_ms;
            let stays = !is_over && !gate.revokes_until(public, convicted.before_ms());
            if !stays {
                gate.acquit(public);
                let key = super::super::persist::contradiction_key(public);
                actions.push_back(Action::Delete { key });
            }
            stays
        });
    }

    /// Asks a peer whom else it has convicted, and so tells it who is.
    pub(in super::super) fn ask_for_contradictions(&mut self, peer: PeerId) {
        let request = Request::Contradictions {
            known: self.told_convictions(),
        };
        let body = request.encode();
        self.call_encoded(
            peer,
            Call::Contradictions,
            body,
            self.parameters.answer_timeout_ms,
        );
    }

    /// Two peers have met: who knows of somebody tells the other.
    pub(in super::super) fn tell_convictions(&mut self, peer: PeerId) {
        if self.is_guarded() && !self.guard.convictions.is_empty() {
            self.ask_for_contradictions(peer);
        }
    }

    fn told_convictions(&self) -> Vec<ToldConviction> {
        let convictions = self.guard.convictions.iter();
        convictions
            .map(|(public, convicted)| ToldConviction {
                public: *public,
                before_ms: convicted.before_ms(),
            })
            .gather()
    }

    pub(in super::super) fn serve_contradictions(
        &mut self,
        from: PeerId,
        known: &[ToldConviction],
    ) -> Result<Vec<u8>, Code> {
        if !self.is_guarded() {
            return Err(Code::BadMessage);
        }
        let is_new =
            |told: &ToldConviction| !self.gate.convicts(&told.public, told.before_ms.saturating_sub(1));
        if known.iter().any(is_new) && self.may_ask(from, |call| matches!(call, Call::Contradictions)) {
            self.ask_for_contradictions(from);
        }
        let is_unknown = |convicted: &&Contradiction| {
            let is_told = |told: &ToldConviction| {
                told.public == convicted.public() && told.before_ms >= convicted.before_ms()
            };
            !known.iter().any(is_told)
        };
        let given = self.guard.convictions.values().filter(is_unknown);
        let given: Vec<&[u8]> = given.take(MAX_GIVEN).map(Contradiction::encoded).gather();
        Ok(encode_contradictions(&given))
    }

    pub(in super::super) fn take_contradictions(
        &mut self,
        cx: &mut Context<'_>,
        from: PeerId,
        given: &[&[u8]],
    ) {
        let mut is_new = false;
        for evidence in given {
            let taken = self.convict(cx, evidence);
            is_new |= taken == Ok(true);
            if self.judge(from, taken.map(|_| ())) {
                return;
            }
        }
        // There may be more.
        if is_new && given.len() == MAX_GIVEN {
            self.ask_for_contradictions(from);
        }
    }

    fn put_contradiction(&mut self, convicted: &Contradiction) {
        self.actions.push_back(Action::Put {
            key: super::super::persist::contradiction_key(&convicted.public()),
            value: convicted.encoded().to_vec(),
            durable: true,
        });
    }
}
