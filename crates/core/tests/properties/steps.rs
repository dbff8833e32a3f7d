//! What can happen, drawn from small pools so that things meet.

use countersign_core::event::{AnswerDelivery, BaseState, Effect};
use proptest::prelude::*;

use crate::family::{FamilyStep, any_family_step};
use crate::managed::{
    ManagedAskStep, ManagedCall, RanStep, When, any_managed_ask, any_managed_call, any_ran,
};

/// Which of the callers in [`crate::world`] speaks.
pub(crate) type Seat = usize;

/// One of the things made so far, counted from the newest; beyond them, an unknown one.
pub(crate) type Pick = usize;

/// How a caller's request reaches the host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Door {
    /// On its connection, if it has one.
    Connection,
    /// Without any.
    Nowhere,
    /// On its last connection, which may be gone by the time this is decided.
    Late,
}

#[derive(Clone, Debug)]
pub(crate) struct AskStep {
    pub(crate) agent: Option<usize>,
    pub(crate) call: Option<(usize, usize)>,
    pub(crate) input: Option<usize>,
    pub(crate) options: usize,
    pub(crate) system_level: bool,
    /// Its number stands for the whole request, unless `clashes` says otherwise.
    pub(crate) key: Option<usize>,
    pub(crate) clashes: bool,
    pub(crate) timeout_s: Option<u64>,
    pub(crate) tool: bool,
    pub(crate) verdict: Option<VerdictStep>,
}

/// What rules say, right or wrong: decide must not trust it further than it may.
#[derive(Clone, Debug)]
pub(crate) struct VerdictStep {
    pub(crate) parts: Vec<PartStep>,
    pub(crate) project: Option<usize>,
}

#[derive(Clone, Debug)]
pub(crate) struct PartStep {
    pub(crate) effect: Effect,
    /// The grant it rests on.
    pub(crate) grant: Option<Pick>,
    pub(crate) floor: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct GrantStep {
    pub(crate) rule: usize,
    pub(crate) effect: Effect,
    pub(crate) agent: Option<usize>,
    pub(crate) project: Option<usize>,
    pub(crate) session: Option<usize>,
    pub(crate) expires_s: Option<u64>,
    pub(crate) uses: Option<u32>,
}

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Connect(Seat),
    Subscribe(Seat),
    Lose(Seat),
    Pass {
        seconds: u64,
        wake: bool,
    },
    Commit,
    /// With the agents whose bit is set, counted from the first, adopted.
    Restart(u8),
    Call(Seat, Door, Call),
    Tell(Pick),
    Settle(Pick, AnswerDelivery),
    Mark {
        process: u32,
        agent: usize,
    },
    Forget {
        process: u32,
    },
    Rejudge(Pick, VerdictStep),
    Ran(Pick, When, RanStep),
    ManagedAsk(ManagedAskStep, AskStep),
    Family(FamilyStep),
}

#[derive(Clone, Debug)]
pub(crate) enum Call {
    Register(usize),
    Unregister(usize),
    SetStatus(usize, BaseState),
    Ask(AskStep),
    Resolve(Pick, usize, bool, Vec<GrantStep>),
    Cancel(Pick),
    Dismiss(Pick),
    AskQuestion(Option<usize>, Option<u64>),
    AnswerQuestion(Pick),
    StopAll,
    Notify(bool),
    RegisterDevice(usize),
    UpdateDevice(usize),
    CreateToken(Option<usize>, Option<u64>),
    CreateGrant(GrantStep),
    RemoveGrant(Pick),
    SetBypass(usize, Option<u64>),
    Trust(usize, usize),
    RenewToken(Pick),
    RevokeToken(Pick),
    Redact(Pick),
    Prune(Pick),
    Managed(ManagedCall),
}

pub(crate) fn any_step() -> impl Strategy<Value = Step> {
    // Those who only look, and the host, seldom speak.
    let seat = prop_oneof![18 => 0..3_usize, 1 => Just(3), 10 => 4..6_usize, 1 => Just(6)];
    let door = prop_oneof![
        8 => Just(Door::Connection),
        2 => Just(Door::Nowhere),
        1 => Just(Door::Late),
    ];
    prop_oneof![
        14 => seat.clone().prop_map(Step::Connect),
        8 => seat.clone().prop_map(Step::Subscribe),
        4 => seat.clone().prop_map(Step::Lose),
        5 => (any_seconds(), any::<bool>()).prop_map(|(seconds, wake)| Step::Pass { seconds, wake }),
        6 => Just(Step::Commit),
        2 => any::<u8>().prop_map(Step::Restart),
        60 => (seat, door, any_call()).prop_map(|(seat, door, call)| Step::Call(seat, door, call)),
        4 => pick().prop_map(Step::Tell),
        1 => (pick(), any_delivery()).prop_map(|(ask, delivery)| Step::Settle(ask, delivery)),
        1 => (0..3_u32, 0..3_usize).prop_map(|(process, agent)| Step::Mark { process, agent }),
        1 => (0..3_u32).prop_map(|process| Step::Forget { process }),
        4 => (pick(), any_verdict()).prop_map(|(ask, verdict)| Step::Rejudge(ask, verdict)),
        24 => any_ran().prop_map(|(agent, when, ran)| Step::Ran(agent, when, ran)),
        16 => (any_managed_ask(), any_ask()).prop_map(|(own, ask)| Step::ManagedAsk(own, ask)),
        24 => any_family_step().prop_map(Step::Family),
    ]
}

fn any_call() -> impl Strategy<Value = Call> {
    let agent = 0..3_usize;
    prop_oneof![
        8 => agent.clone().prop_map(Call::Register),
        2 => agent.clone().prop_map(Call::Unregister),
        5 => (agent.clone(), any_base()).prop_map(|(agent, base)| Call::SetStatus(agent, base)),
        24 => any_ask().prop_map(Call::Ask),
        24 => (pick(), any_option(), prop::bool::weighted(0.1), any_remembered()).prop_map(|(ask, option, edit, remember)| Call::Resolve(ask, option, edit, remember)),
        4 => pick().prop_map(Call::Cancel),
        4 => pick().prop_map(Call::Dismiss),
        5 => (prop::option::of(agent.clone()), prop::option::of(any_seconds())).prop_map(|(agent, timeout)| Call::AskQuestion(agent, timeout)),
        4 => pick().prop_map(Call::AnswerQuestion),
        1 => Just(Call::StopAll),
        1 => any::<bool>().prop_map(Call::Notify),
        1 => (0..2_usize).prop_map(Call::RegisterDevice),
        1 => (0..2_usize).prop_map(Call::UpdateDevice),
        2 => (prop::option::of(agent.clone()), prop::option::of(any_seconds())).prop_map(|(agent, ttl)| Call::CreateToken(agent, ttl)),
        8 => any_grant().prop_map(Call::CreateGrant),
        2 => pick().prop_map(Call::RemoveGrant),
        3 => (agent, prop::option::of(any_seconds())).prop_map(|(agent, until)| Call::SetBypass(agent, until)),
        1 => (0..2_usize, 0..2_usize).prop_map(|(file, digest)| Call::Trust(file, digest)),
        1 => pick().prop_map(Call::RenewToken),
        1 => pick().prop_map(Call::RevokeToken),
        2 => pick().prop_map(Call::Redact),
        1 => pick().prop_map(Call::Prune),
        20 => any_managed_call().prop_map(Call::Managed),
    ]
}

fn any_ask() -> impl Strategy<Value = AskStep> {
    let call = prop::option::of((0..2_usize, 0..2_usize));
    let key = prop_oneof![2 => Just(None), 1 => (0..2_usize).prop_map(Some)];
    let timeout = prop_oneof![3 => Just(None), 1 => any_seconds().prop_map(Some)];
    (
        prop::option::of(0..3_usize),
        call,
        prop::option::of(0..2_usize),
        prop_oneof![8 => 0..5_usize, 1 => Just(5)],
        prop::bool::weighted(0.2),
        key,
        prop::bool::weighted(0.2),
        timeout,
        (any::<bool>(), prop::option::of(any_verdict())),
    )
        .prop_map(
            |(agent, call, input, options, system_level, key, clashes, timeout_s, judged)| {
                AskStep {
                    agent,
                    call,
                    input,
                    options,
                    system_level,
                    key,
                    clashes,
                    timeout_s,
                    tool: judged.0,
                    verdict: judged.1,
                }
            },
        )
}

fn any_option() -> impl Strategy<Value = usize> {
    prop_oneof![6 => Just(0), 2 => Just(1), 2 => Just(2), 1 => Just(3)]
}

fn pick() -> impl Strategy<Value = Pick> {
    prop_oneof![8 => 0..3_usize, 4 => 0..12_usize, 1 => Just(usize::MAX)]
}

fn any_seconds() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        Just(1),
        Just(30),
        Just(59),
        Just(60),
        Just(61),
        0..400_u64
    ]
}

fn any_base() -> impl Strategy<Value = BaseState> {
    prop_oneof![
        Just(BaseState::Starting),
        Just(BaseState::Running),
        Just(BaseState::Idle),
        Just(BaseState::Paused),
        Just(BaseState::Done),
        Just(BaseState::Error),
        Just(BaseState::Stopped),
    ]
}

fn any_delivery() -> impl Strategy<Value = AnswerDelivery> {
    prop_oneof![
        Just(AnswerDelivery::Delivered),
        Just(AnswerDelivery::Withdrawn),
        Just(AnswerDelivery::Unknown),
    ]
}

fn any_effect() -> impl Strategy<Value = Effect> {
    prop_oneof![
        4 => Just(Effect::Allow),
        1 => Just(Effect::Ask),
        1 => Just(Effect::Deny),
    ]
}

fn any_verdict() -> impl Strategy<Value = VerdictStep> {
    let part = (
        any_effect(),
        prop::option::of(pick()),
        prop::bool::weighted(0.1),
    );
    let part = part.prop_map(|(effect, grant, floor)| PartStep {
        effect,
        grant,
        floor,
    });
    (
        prop::collection::vec(part, 1..=3),
        prop::option::of(0..2_usize),
    )
        .prop_map(|(parts, project)| VerdictStep { parts, project })
}

fn any_grant() -> impl Strategy<Value = GrantStep> {
    let seldom = |range: std::ops::Range<usize>| prop::option::weighted(0.2, range);
    (
        0..2_usize,
        any_effect(),
        seldom(0..3),
        seldom(0..2),
        seldom(0..3),
        prop::option::weighted(0.3, any_seconds()),
        prop::option::weighted(0.5, 0..4_u32),
    )
        .prop_map(
            |(rule, effect, agent, project, session, expires_s, uses)| GrantStep {
                rule,
                effect,
                agent,
                project,
                session,
                expires_s,
                uses,
            },
        )
}

fn any_remembered() -> impl Strategy<Value = Vec<GrantStep>> {
    prop_oneof![
        4 => Just(Vec::new()),
        1 => prop::collection::vec(any_grant(), 1..3),
    ]
}
