//! Lookups against answers that are honest, late, or lies.

use super::*;

fn peer(high: u8) -> PeerId {
    let mut id = [0; 32];
    id[0] = high;
    PeerId(id)
}

fn lookup(target: Place, before: &[PeerId], after: &[PeerId]) -> Lookup {
    let start = Start {
        before: before.to_vec(),
        after: after.to_vec(),
        spacing: leading(&peer(16).0),
        ..Start::default()
    };
    Lookup::new(&Parameters::DEFAULT, target, start)
}

fn asks(lookup: &mut Lookup) -> PeerId {
    match lookup.next(0) {
        Step::Ask(peer) => peer,
        other => panic!("asks somebody, not {other:?}"),
    }
}

fn finishes(lookup: &mut Lookup) -> Result<PeerId, Code> {
    match lookup.next(0) {
        Step::Finished(result) => result.map(|owner| owner.peer),
        other => panic!("is finished, not {other:?}"),
    }
}

fn leads(closer: &[u8], successors: &[u8]) -> Answer {
    Answer {
        closer: closer.iter().copied().map(peer).collect(),
        successors: successors.iter().copied().map(peer).collect(),
        ..Answer::default()
    }
}

fn owns() -> Answer {
    Answer {
        responsible: true,
        ..Answer::default()
    }
}

#[test]
fn goes_closer_step_by_step_until_one_is_responsible() {
    let mut lookup = lookup(peer(50).place(), &[peer(10), peer(20)], &[]);
    assert_eq!(asks(&mut lookup), peer(20));
    assert!(matches!(lookup.next(0), Step::Wait));
    assert_eq!(lookup.answered(&peer(20), leads(&[40], &[30])), Ok(()));
    assert_eq!(asks(&mut lookup), peer(40));
    assert_eq!(lookup.answered(&peer(40), leads(&[], &[60, 70])), Ok(()));
    assert_eq!(asks(&mut lookup), peer(60));
    assert_eq!(lookup.answered(&peer(60), owns()), Ok(()));
    // Another one is to say so too.
    assert_eq!(asks(&mut lookup), peer(30));
    assert_eq!(lookup.answered(&peer(30), leads(&[], &[60])), Ok(()));
    assert_eq!(finishes(&mut lookup), Ok(peer(60)));
}

#[test]
fn those_that_are_to_vouch_are_asked_at_once_and_are_no_hops() {
    let mut lookup = lookup(peer(50).place(), &[peer(20), peer(30), peer(40)], &[]);
    assert_eq!(asks(&mut lookup), peer(40));
    assert_eq!(lookup.answered(&peer(40), leads(&[], &[60])), Ok(()));
    assert_eq!(asks(&mut lookup), peer(60));
    let beyond = Answer {
        predecessor: Some(peer(55)),
        ..leads(&[], &[70])
    };
    assert_eq!(lookup.answered(&peer(60), beyond), Ok(()));
    assert_eq!(asks(&mut lookup), peer(55));
    assert!(matches!(lookup.next(0), Step::Wait));
    assert_eq!(lookup.answered(&peer(55), owns()), Ok(()));
    assert_eq!(asks(&mut lookup), peer(30));
    assert!(matches!(lookup.next(0), Step::Wait));
    assert_eq!(lookup.answered(&peer(30), leads(&[], &[55])), Ok(()));
    match lookup.next(0) {
        Step::Finished(Ok(owner)) => assert_eq!((owner.peer, owner.hops), (peer(55), 3)),
        other => panic!("is finished, not {other:?}"),
    }
}

#[test]
fn both_that_are_missing_are_asked_at_once() {
    let mut lookup = lookup(peer(50).place(), &[peer(30), peer(40)], &[peer(60), peer(70)]);
    assert_eq!(asks(&mut lookup), peer(60));
    let back = Answer {
        predecessor: Some(peer(55)),
        ..Answer::default()
    };
    assert_eq!(lookup.answered(&peer(60), back), Ok(()));
    assert_eq!(asks(&mut lookup), peer(55));
    assert_eq!(lookup.answered(&peer(55), owns()), Ok(()));
    assert_eq!(asks(&mut lookup), peer(40));
    assert_eq!(asks(&mut lookup), peer(30));
    assert!(matches!(lookup.next(0), Step::Wait));
    assert_eq!(lookup.answered(&peer(30), leads(&[], &[55])), Ok(()));
    assert_eq!(lookup.answered(&peer(40), leads(&[], &[55])), Ok(()));
    assert_eq!(finishes(&mut lookup), Ok(peer(55)));
}

#[test]
fn an_answer_that_comes_no_closer_is_noted_and_its_peer_not_asked_again() {
    let mut lookup = lookup(peer(50).place(), &[peer(10), peer(20)], &[]);
    assert_eq!(asks(&mut lookup), peer(20));
    assert_eq!(
        lookup.answered(&peer(20), leads(&[15], &[])),
        Err(Code::NoProgress)
    );
    assert_eq!(asks(&mut lookup), peer(10));
    assert_eq!(lookup.answered(&peer(10), leads(&[20], &[])), Ok(()));
    assert_eq!(finishes(&mut lookup), Err(Code::NoProgress));
}

#[test]
fn a_dead_successor_is_passed_over() {
    let mut lookup = lookup(peer(50).place(), &[peer(40)], &[]);
    asks(&mut lookup);
    assert_eq!(lookup.answered(&peer(40), leads(&[], &[60, 70])), Ok(()));
    assert_eq!(asks(&mut lookup), peer(60));
    lookup.failed(&peer(60), Code::TimedOut);
    assert_eq!(asks(&mut lookup), peer(70));
    assert_eq!(lookup.answered(&peer(70), owns()), Ok(()));
    assert_eq!(finishes(&mut lookup), Ok(peer(70)));
}

#[test]
fn who_gave_no_answer_is_asked_again_with_a_newer_record_only() {
    let mut lookup = lookup(peer(50).place(), &[peer(30), peer(40)], &[peer(60)]);
    assert_eq!(asks(&mut lookup), peer(60));
    lookup.failed(&peer(60), Code::DialFailed);
    assert_eq!(asks(&mut lookup), peer(40));
    assert_eq!(lookup.answered(&peer(40), leads(&[], &[60])), Ok(()));
    assert_eq!(asks(&mut lookup), peer(30));
    lookup.named_anew(&peer(60));
    lookup.named_anew(&peer(40));
    assert_eq!(lookup.answered(&peer(30), leads(&[], &[60])), Ok(()));
    assert_eq!(asks(&mut lookup), peer(60));
}

#[test]
fn who_gave_no_answer_is_asked_once_more_when_its_follower_takes_it_to_live() {
    let mut lookup = lookup(peer(50).place(), &[peer(30), peer(40)], &[peer(60), peer(70)]);
    let follows = || Answer {
        predecessor: Some(peer(60)),
        ..Answer::default()
    };
    assert_eq!(asks(&mut lookup), peer(60));
    lookup.failed(&peer(60), Code::Disconnected);
    assert_eq!(asks(&mut lookup), peer(70));
    assert_eq!(lookup.answered(&peer(70), follows()), Ok(()));
    assert_eq!(asks(&mut lookup), peer(60));
    lookup.failed(&peer(60), Code::Disconnected);
    assert_eq!(asks(&mut lookup), peer(40));
    assert_eq!(lookup.answered(&peer(40), leads(&[], &[80])), Ok(()));
    assert_eq!(asks(&mut lookup), peer(80));
    assert_eq!(lookup.answered(&peer(80), follows()), Ok(()));
    assert_eq!(asks(&mut lookup), peer(30));
}

#[test]
fn a_claim_is_checked_against_members_that_lie_nearer() {
    let mut lookup = lookup(peer(50).place(), &[peer(30), peer(40)], &[peer(60)]);
    assert_eq!(asks(&mut lookup), peer(60));
    let back = Answer {
        predecessor: Some(peer(55)),
        ..leads(&[], &[90])
    };
    assert_eq!(lookup.answered(&peer(60), back), Ok(()));
    assert_eq!(asks(&mut lookup), peer(55));
    assert_eq!(lookup.answered(&peer(55), owns()), Ok(()));
    assert_eq!(asks(&mut lookup), peer(40));
    assert_eq!(lookup.answered(&peer(40), leads(&[], &[55])), Ok(()));
    assert_eq!(asks(&mut lookup), peer(30));
    assert_eq!(lookup.answered(&peer(30), leads(&[], &[55])), Ok(()));
    assert_eq!(finishes(&mut lookup), Ok(peer(55)));
}

#[test]
fn the_askers_own_claim_is_checked_like_any_other() {
    let claimed = || {
        let mut lookup = lookup(peer(50).place(), &[peer(20), peer(40)], &[]);
        lookup.exclude_asker(peer(90), Some(peer(5)));
        lookup.claim(&peer(90));
        assert_eq!(asks(&mut lookup), peer(40));
        assert_eq!(asks(&mut lookup), peer(20));
        assert_eq!(lookup.claimed(&peer(40)), Some(peer(90)));
        lookup
    };
    let mut misled = claimed();
    assert_eq!(misled.answered(&peer(40), leads(&[], &[60, 90])), Ok(()));
    assert_eq!(misled.answered(&peer(20), leads(&[40], &[40, 60])), Ok(()));
    assert_eq!(asks(&mut misled), peer(60));
    assert_eq!(misled.answered(&peer(60), owns()), Ok(()));
    assert_eq!(finishes(&mut misled), Ok(peer(60)));

    let mut right = claimed();
    assert_eq!(right.answered(&peer(40), leads(&[], &[90])), Ok(()));
    assert_eq!(right.answered(&peer(20), leads(&[40], &[40, 90])), Ok(()));
    assert_eq!(finishes(&mut right), Ok(peer(90)));
}

#[test]
fn a_claim_for_which_only_distant_members_vouch_is_not_believed() {
    let mut lookup = lookup(peer(150).place(), &[peer(10), peer(80), peer(100)], &[]);
    assert_eq!(asks(&mut lookup), peer(100));
    assert_eq!(lookup.answered(&peer(100), leads(&[], &[200])), Ok(()));
    assert_eq!(asks(&mut lookup), peer(200));
    assert_eq!(lookup.answered(&peer(200), owns()), Ok(()));
    assert_eq!(asks(&mut lookup), peer(80));
    assert_eq!(lookup.answered(&peer(80), leads(&[], &[200])), Ok(()));
    assert_eq!(asks(&mut lookup), peer(10));
    assert_eq!(lookup.answered(&peer(10), leads(&[140], &[])), Ok(()));
    assert_eq!(asks(&mut lookup), peer(140));
    assert_eq!(lookup.answered(&peer(140), leads(&[], &[160])), Ok(()));
    assert_eq!(asks(&mut lookup), peer(160));
    assert_eq!(lookup.answered(&peer(160), owns()), Ok(()));
    assert_eq!(finishes(&mut lookup), Ok(peer(160)));
}

/// The usual way is 16: two may lie 32 before the one that they vouch for, four 128.
#[test]
fn many_that_vouch_may_lie_further_away_than_few() {
    let before = [peer(50), peer(80), peer(100), peer(110)];
    let mut lookup = lookup(peer(150).place(), &before, &[]);
    assert_eq!(asks(&mut lookup), peer(110));
    assert_eq!(lookup.answered(&peer(110), leads(&[], &[160])), Ok(()));
    assert_eq!(asks(&mut lookup), peer(160));
    assert_eq!(lookup.answered(&peer(160), owns()), Ok(()));
    for further in [100, 80, 50] {
        assert_eq!(asks(&mut lookup), peer(further));
        assert_eq!(lookup.answered(&peer(further), leads(&[], &[160])), Ok(()));
    }
    assert_eq!(finishes(&mut lookup), Ok(peer(160)));
}

#[test]
fn one_before_the_position_that_claims_it_is_not_believed() {
    let mut lookup = lookup(peer(150).place(), &[peer(130), peer(138), peer(140)], &[]);
    assert_eq!(asks(&mut lookup), peer(140));
    assert_eq!(lookup.answered(&peer(140), owns()), Ok(()));
    for honest in [138, 130] {
        assert_eq!(asks(&mut lookup), peer(honest));
        assert_eq!(lookup.answered(&peer(honest), leads(&[], &[160])), Ok(()));
        if honest == 138 {
            assert_eq!(asks(&mut lookup), peer(160));
            assert_eq!(lookup.answered(&peer(160), owns()), Ok(()));
        }
    }
    assert_eq!(finishes(&mut lookup), Ok(peer(160)));
}

#[test]
fn a_claim_that_nobody_contradicts_is_believed_in_the_end() {
    let mut lookup = lookup(peer(150).place(), &[peer(10), peer(100)], &[]);
    asks(&mut lookup);
    assert_eq!(lookup.answered(&peer(100), leads(&[], &[200])), Ok(()));
    asks(&mut lookup);
    assert_eq!(lookup.answered(&peer(200), owns()), Ok(()));
    asks(&mut lookup);
    lookup.failed(&peer(10), Code::TimedOut);
    assert_eq!(finishes(&mut lookup), Ok(peer(200)));
}

#[test]
fn who_leads_back_again_and_again_is_left_for_others() {
    let mut lookup = lookup(peer(50).place(), &[peer(40)], &[peer(200)]);
    for after in (0..=MAX_STEPS_BACK as u8).map(|step| 200 - step) {
        assert_eq!(asks(&mut lookup), peer(after));
        let back = Answer {
            predecessor: Some(peer(after - 1)),
            ..leads(&[], &[])
        };
        assert_eq!(lookup.answered(&peer(after), back), Ok(()));
    }
    assert_eq!(asks(&mut lookup), peer(40));
}

#[test]
fn slow_answers_let_others_be_asked_but_never_more_than_three() {
    let before: Vec<PeerId> = (1..10).map(peer).collect();
    let mut lookup = lookup(peer(50).place(), &before, &[]);
    let mut asked = 0;
    for round in 0..10 {
        lookup.tick(round * Parameters::DEFAULT.hedge_ms);
        while let Step::Ask(_) = lookup.next(round * Parameters::DEFAULT.hedge_ms) {
            asked += 1;
        }
    }
    assert_eq!(asked, Parameters::DEFAULT.parallel);
}

#[test]
fn the_number_of_requests_is_bounded() {
    let mut lookup = lookup(peer(255).place(), &[peer(1)], &[]);
    let mut count = 0;
    while let Step::Ask(asked) = lookup.next(0) {
        count += 1;
        let next = asked.0[0] + 1;
        assert_eq!(lookup.answered(&asked, leads(&[next], &[])), Ok(()));
    }
    assert_eq!(count, Parameters::DEFAULT.max_asked);
}

/// A lookup of which 60 claims the position, and whose group names 35.
fn with_witness() -> Lookup {
    let mut lookup = lookup(peer(50).place(), &[peer(30), peer(40)], &[]);
    assert_eq!(asks(&mut lookup), peer(40));
    assert_eq!(lookup.answered(&peer(40), leads(&[], &[60])), Ok(()));
    assert_eq!(asks(&mut lookup), peer(60));
    assert_eq!(lookup.answered(&peer(60), owns()), Ok(()));
    lookup.set_witness(peer(35));
    assert_eq!(asks(&mut lookup), peer(35), "before all others");
    lookup
}

#[test]
fn lookup_waits_for_the_witness_that_the_group_names() {
    let mut lookup = with_witness();
    assert!(matches!(lookup.next(0), Step::Wait));
    assert_eq!(lookup.answered(&peer(35), leads(&[], &[60])), Ok(()));
    assert_eq!(finishes(&mut lookup), Ok(peer(60)));
}

#[test]
fn witness_that_does_not_answer_is_not_waited_for() {
    let mut lookup = with_witness();
    lookup.failed(&peer(35), Code::TimedOut);
    assert_eq!(asks(&mut lookup), peer(30));
    assert_eq!(lookup.answered(&peer(30), leads(&[], &[60])), Ok(()));
    assert_eq!(finishes(&mut lookup), Ok(peer(60)));
}

#[test]
fn witness_may_name_somebody_nearer_who_has_to_say_so_itself() {
    let mut lookup = with_witness();
    assert_eq!(lookup.answered(&peer(35), leads(&[], &[55, 60])), Ok(()));
    assert_eq!(asks(&mut lookup), peer(55));
    assert_eq!(lookup.answered(&peer(55), owns()), Ok(()));
    assert_eq!(finishes(&mut lookup), Ok(peer(55)));
    let mut lookup = with_witness();
    assert_eq!(lookup.answered(&peer(35), leads(&[], &[55, 60])), Ok(()));
    assert_eq!(asks(&mut lookup), peer(55));
    lookup.failed(&peer(55), Code::DialFailed);
    assert_eq!(finishes(&mut lookup), Ok(peer(60)), "a word alone moves nothing");
}
