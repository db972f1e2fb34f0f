-- What applications call to look: where an effect stands, why, and what operations there are.
--
-- Invariants established here:
--   * `admitted` is never shown without saying whether it is unresolved, and since when;
--   * a caller sees its own effects, those of its tasks, and those that the owner let it see.

-- Why an effect waits or was declined, and what to do about it. src/core/denial.ts holds the same list and its order.
create table effects_ledger.denial (
  rank        int primary key,
  code        text not null unique,
  transient   boolean not null,
  waiting_for text,
  hint        text not null,
  constraint "what is waited for, where it is transient" check (transient = (waiting_for is not null))
);
insert into effects_ledger.denial values
  (1, 'permit_consumed', false, null, 'it was admitted before; observe the effect'),
  (2, 'recovery_unacknowledged', true, 'recovery', 'this database is not the one the ledger was written in: run doctor'),
  (3, 'violation_unacknowledged', true, 'recovery', 'the owner acknowledges the violation first'),
  (4, 'ledger_standby', true, 'recovery', 'this server is a standby: connect to the primary'),
  (5, 'durability_missing', true, 'recovery', 'switch fsync and full_page_writes on: run doctor'),
  (6, 'binding_expired', false, null, 'it was not admitted in time; request it anew'),
  (7, 'binding_mismatch', false, null, 'the stored binding is not the one that was digested: run audit.violations'),
  (8, 'payload_mismatch', false, null, 'the stored payload is missing or not the one that was digested'),
  (9, 'invocation_ended', false, null, 'the invocation that asked has ended'),
  (10, 'operation_withdrawn', false, null, 'the owner withdrew this operation''s version'),
  (11, 'operation_not_allowed', false, null, 'the owner allows a protected operation first'),
  (12, 'unsupported', false, null, 'the operation lacks what a protected one needs'),
  (13, 'implementation_changed', true, 'worker', 'it is prepared again by the worker that runs now'),
  (14, 'binding_unstable', false, null, 'its binding changed three times; look at what deploys'),
  (15, 'task_revoked', false, null, 'its task was revoked'),
  (16, 'task_ended', false, null, 'its task has ended'),
  (17, 'task_expired', false, null, 'its task is past its deadline'),
  (18, 'actor_revoked', false, null, 'its actor was revoked'),
  (19, 'paused', true, 'paused', 'somebody paused it; it goes on when resumed'),
  (20, 'not_yet', true, 'time', 'it was asked for later'),
  (21, 'policy_missing', false, null, 'no policy covers it'),
  (22, 'policy_revoked', false, null, 'its policy was revoked'),
  (23, 'policy_expired', false, null, 'its policy has expired'),
  (24, 'policy_exhausted', false, null, 'its policy has no admissions left'),
  (25, 'approval_required', true, 'approval', 'somebody approves it first'),
  (26, 'approval_refused', false, null, 'an approver refused it'),
  (27, 'predecessor_accepted', false, null, 'the effect that it follows was accepted'),
  (28, 'predecessor_contradicted', false, null, 'the effect that it follows is contradicted'),
  (29, 'budget_missing', false, null, 'a unit of its cost has no budget'),
  (30, 'budget_exceeded', false, null, 'its maximum cost is above what its budgets have left'),
  (31, 'budget_held', true, 'budget', 'its budget has room once what is reserved is settled'),
  (32, 'doubt_limit', true, 'doubt', 'too many effects of its policy are open'),
  (33, 'lane_busy', true, 'lane', 'another effect of its lane is open'),
  (101, 'input_invalid', false, null, 'its input does not fit the operation''s schema (effects.operations)'),
  (102, 'preparation_invalid', false, null, 'its adapter found that it can never be carried out'),
  (103, 'binding_too_large', false, null, 'its binding is larger than the contract allows'),
  (104, 'preparation_failed', true, 'preparation', 'its adapter could not read what it needs; it is tried again'),
  (105, 'payload_too_large', false, null, 'its payload has more than 1048576 canonical bytes: bind a reference instead'),
  (106, 'secret_bound', false, null, 'its adapter would have bound a declared secret: leave it out, and read it in dispatch'),
  (107, 'cancelled', false, null, 'it was cancelled before its admission: nothing was sent');
call effects_ledger.make_history('effects_ledger.denial');

-- Where an effect stands, as its requester sees it: one row an effect. The time is the statement's: a volatile clock would
-- keep the planner from looking one effect up, and make it go through all of them.
create view effects_ledger.standing as
  select e.effect_id, r.known_as as name, r.operation, r.version, t.name as task, e.state,
         case e.state when 'admitted' then e.unresolved_since is not null or e.dispatch_deadline <= statement_timestamp()
                      when 'uncertain' then z.effect_id is null else false end as unresolved,
         case when e.state = 'admitted' and (e.unresolved_since is not null or e.dispatch_deadline <= statement_timestamp())
                or e.state = 'uncertain' and z.effect_id is null
              then coalesce(e.unresolved_since, e.dispatch_deadline) end as unresolved_since,
         e.waiting_for, e.declined_reason as reason, e.denial_code as code, d.hint,
         case when o.outcome = 'accepted' then convert_from(v.bytes, 'UTF8')::json end as proof,
         case when o.outcome <> 'accepted' then convert_from(v.bytes, 'UTF8')::json end as evidence,
         o.via,
         (select coalesce(json_object_agg(c.unit, (coalesce(c.settled, c.reserved)::numeric + c.overrun)::text order by c.unit), '{}')
            from effects_ledger.cost c where c.effect_id = e.effect_id) as cost,
         case when z.effect_id is not null
              then json_build_object('kind', case when y.effect_id is null then z.kind else 'evidence' end, 'says', coalesce(y.says, z.says),
                                     'by', coalesce(y.by_role, z.by_role), 'at', coalesce(y.at, z.at)) end as resolution,
         e.reference, e.seq, f.effect_id as followed_by, r.actor, t.actor as task_actor, t.lineage
    from effects_ledger.effect e
    join effects_ledger.request r using (effect_id)
    join effects_ledger.task t using (task_id)
    left join effects_ledger.denial d on d.code = e.denial_code
    left join effects_ledger.follower f on f.predecessor = e.effect_id
    left join effects_ledger.outcome o on o.effect_id = e.effect_id
    left join effects_payload.evidence v on v.evidence_id = o.evidence_id
    left join effects_ledger.resolution z on z.effect_id = e.effect_id
    left join effects_ledger.resolution_after_risk y on y.effect_id = e.effect_id;

-- Who may look at effects that are not its own: those of a task, and of every task under it.
create table effects_ledger.observer (
  actor    text not null,
  task_id  uuid not null references effects_ledger.task,
  added_by text not null,
  added_at timestamptz not null default clock_timestamp(),
  primary key (actor, task_id)
);

-- True where the acting role may look: it is the actor, the task's actor, speaks for one of them, was let, or operates.
create function effects_ledger.may_observe(actor text, task_actor text, lineage uuid[]) returns boolean language sql volatile
  set search_path = pg_catalog, pg_temp
  as $$
    select effects_ledger.actor_now() in (actor, task_actor)
        or effects_ledger.spoken_for(actor) is not null or effects_ledger.spoken_for(task_actor) is not null
        or exists (select from effects_ledger.observer o
                    where o.actor = effects_ledger.actor_now() and o.task_id = any (lineage))
        or effects_ledger.has_role('operator')
  $$;

-- What an observer sees of an effect: the columns of effects.observe, effects.find and effects.effects.
create type effects_ledger.observed as (
  effect_id uuid, name text, operation text, version int, task text, state text, unresolved boolean,
  unresolved_since timestamptz, waiting_for text, reason text, code text, hint text, proof json, evidence json, via text,
  cost json, resolution json, reference text, seq int, followed_by uuid
);

create function effects.observe(effect_id uuid) returns setof effects_ledger.observed
  language sql volatile security definer set search_path = pg_catalog, pg_temp
  as $$
    select s.effect_id, s.name, s.operation, s.version, s.task, s.state, s.unresolved, s.unresolved_since, s.waiting_for,
           s.reason, s.code, s.hint, s.proof, s.evidence, s.via, s.cost, s.resolution, s.reference, s.seq, s.followed_by
      from effects_ledger.standing s
     where s.effect_id = $1 and effects_ledger.may_observe(s.actor, s.task_actor, s.lineage)
  $$;
comment on function effects.observe is 'Where an effect that the caller may look at stands: one row, or none.';

create function effects.find(name text, task text default 'default') returns setof effects_ledger.observed
  language sql volatile security definer set search_path = pg_catalog, pg_temp
  as $$
    select o.* from effects_ledger.request r join effects_ledger.task t using (task_id)
     cross join lateral effects.observe(r.effect_id) as o
     where r.name = $1 and r.run is null and t.name = $2
  $$;
comment on function effects.find is
  'Where the effect that was requested by a name stands, if the caller may look at it: one row, or none. `followed_by` leads on.';

-- The effects of the acting role, and those that it asked for in another actor's name.
create function effects_ledger.own_effects() returns setof effects_ledger.observed
  language sql volatile security definer set search_path = pg_catalog, pg_temp
  as $$
    select o.* from effects_ledger.request r
     cross join lateral effects.observe(r.effect_id) as o
     where r.actor = effects_ledger.actor_now() or effects_ledger.spoken_for(r.actor) is not null
  $$;
create view effects.effects with (security_invoker = true) as select * from effects_ledger.own_effects();
comment on view effects.effects is 'The caller''s own effects, each as effects.observe shows it.';

create view effects.ledger as
  select i.ledger_id, i.name, i.strict, i.founded_at, effects_ledger.identity_standing() as standing,
         effects_ledger.durability_gap() as durability_gap
    from effects_ledger.identity i;
comment on view effects.ledger is 'Which ledger this database holds, and why it is closed, if it is.';

create view effects.operations as
  select o.operation, o.version, o.input_schema as input, o.contract, o.implementation, o.release, o.protected,
         o.registered_at, o.withdrawn_at
    from effects_ledger.operation o;
comment on view effects.operations is 'Every registered operation with its input as JSON Schema, for other languages.';
