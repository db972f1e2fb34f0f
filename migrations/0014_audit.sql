-- The audit schema: what happened and what stands, in plain SQL. Columns are only ever added.
--
-- Invariants established here:
--   * audit.violations is empty on a sound ledger, and each row names what is broken and where.

create view audit.effects as
  select e.effect_id, r.name, r.operation, r.version as operation_version, b.implementation, b.release,
         r.task_id as task, t.name as task_name, t.path as task_path, t.lineage[1] as root_task, t.subject, r.actor,
         r.requested_by, r.requested_at, b.prepared_at, e.admitted_at, o.at as outcome_at, r.not_before, r.expires_at,
         e.dispatch_deadline, e.state, s.unresolved, s.unresolved_since, e.waiting_for, e.declined_reason, e.denial_code,
         e.admitted_under, p.name as policy, encode(b.digest, 'hex') as digest, b.binding_version,
         convert_from(b.bytes, 'UTF8')::json ->> 'target' as target, o.outcome, o.via as outcome_via, e.reference,
         z.kind as resolution, z.at as resolved_at, r.key, r.recovery_epoch, coalesce(b.purged_at, i.purged_at) as purged_at
    from effects_ledger.effect e
    join effects_ledger.request r using (effect_id)
    join effects_ledger.task t using (task_id)
    join effects_ledger.standing s using (effect_id)
    left join effects_payload.binding b on b.effect_id = e.effect_id and b.revision = e.revision
    left join effects_payload.input i on i.effect_id = e.effect_id
    left join effects_ledger.policy p on p.policy_id = b.policy_id
    left join effects_ledger.outcome o on o.effect_id = e.effect_id
    left join effects_ledger.resolution z on z.effect_id = e.effect_id;

create view audit.costs as
  select c.effect_id, c.unit, c.reserved, c.settled, c.overrun, c.standing, c.source, c.at from effects_ledger.cost c;

create view audit.unresolved as
  select e.effect_id, e.name, e.operation, e.task_path, e.unresolved_since as since,
         case when e.state = 'uncertain' then 'asked, and nobody could tell'
              else coalesce((select v.detail ->> 'reason' from effects_ledger.event v
                              where v.effect_id = e.effect_id and v.event = 'unresolved' order by v.seq desc limit 1),
                            'its dispatch window passed without a word') end as reason,
         coalesce((select json_object_agg(c.unit, c.reserved::text order by c.unit) from effects_ledger.cost c
                    where c.effect_id = e.effect_id and c.standing = 'reserved'), '{}') as held
    from effects_ledger.live l
    join audit.effects e using (effect_id)
   where e.unresolved;

create view audit.events as
  select v.effect_id, v.seq, v.at, v.event, v.from_state, v.to_state, v.by_role, v.by_worker, v.detail,
         encode(v.previous_hash, 'hex') as previous_hash, encode(v.hash, 'hex') as hash
    from effects_ledger.event v;

create view audit.reconciliations as
  select r.reconciliation_id, r.requested_by, r.scope, r.scope_name,
         case when r.allow_fence then 'lookup, fence' else 'lookup' end as allows, r.requested_at, r.deadline,
         run.started_at, case when run.open = 0 then run.ended_at end as ended_at,
         case when counts.operations = coalesce(run.finished, 0) then 'finished'
              when r.deadline <= clock_timestamp() or coalesce(run.open, 1) = 0 and run.runs = counts.operations
              then 'expired' end as ended,
         counts.in_scope, counts.inspected, counts.recorded, counts.could_not_ask,
         counts.in_scope - counts.inspected as not_reached
    from effects_ledger.reconciliation r
    cross join lateral (
      select count(*) as in_scope, count(distinct x.operation) as operations,
             count(*) filter (where seen.inspections > 0) as inspected,
             count(*) filter (where seen.recorded > 0) as recorded,
             count(*) filter (where seen.recorded = 0 and seen.could_not_ask > 0) as could_not_ask
        from effects_ledger.reconciliation_effect x
        cross join lateral (
          select count(*) as inspections, count(p.recorded) as recorded,
                 count(*) filter (where p.report = 'could_not_ask') as could_not_ask
            from effects_ledger.inspection i left join effects_ledger.inspection_report p using (inspection_id)
           where i.reconciliation_id = x.reconciliation_id and i.effect_id = x.effect_id) as seen
       where x.reconciliation_id = r.reconciliation_id) as counts
    left join lateral (
      select min(n.started_at) as started_at, max(n.ended_at) as ended_at, count(*) as runs,
             count(*) filter (where n.ended_at is null) as open, count(*) filter (where n.ended = 'finished') as finished
        from effects_ledger.reconciliation_run n
       where n.reconciliation_id = r.reconciliation_id having count(*) > 0) as run on true;

create view audit.inspections as
  select i.reconciliation_id, i.effect_id, i.kind, i.begun_at, p.at, p.report, p.recorded, p.reason,
         convert_from(v.bytes, 'UTF8')::json as evidence, encode(v.digest, 'hex') as evidence_digest, p.took_ms,
         i.worker, i.implementation
    from effects_ledger.inspection i
    left join effects_ledger.inspection_report p using (inspection_id)
    left join effects_payload.evidence v on v.evidence_id = p.evidence_id;
comment on view audit.inspections is 'What each reconciliation asked and was told. Without a report: the call was begun and never answered.';

create view audit.evidence as
  select v.effect_id, v.at, v.source, v.submitted_by, v.source in ('dispatch', 'reconcile') as authoritative, v.says,
         v.agrees, v.reference, convert_from(v.bytes, 'UTF8')::json as body, encode(v.digest, 'hex') as digest
    from effects_payload.evidence v;

create view audit.budgets as
  select b.task_id as task, t.path as task_path, t.subject, b.unit, b.limit_amount, b.reserved,
         coalesce((select sum(v.amount) from effects_ledger.reservation v
                     join effects_ledger.cost c using (effect_id, unit)
                     join effects_ledger.standing s using (effect_id)
                    where v.task_id = b.task_id and v.unit = b.unit and c.standing = 'reserved' and s.unresolved), 0)::bigint
           as reserved_in_doubt,
         b.spent, b.overrun, b.limit_amount::numeric - b.reserved - b.spent - b.overrun as left_amount, b.set_by, b.set_at
    from effects_ledger.budget b join effects_ledger.task t using (task_id);

create view audit.tasks as
  select t.task_id as task, t.name, t.path, t.parent_id as parent, t.lineage[1] as root, t.subject, t.actor, t.deadline,
         t.opened_by, t.opened_at, t.ended_at, t.revoked_at, t.paused_at
    from effects_ledger.task t;

create view audit.operations as
  select o.operation, o.version, o.contract, encode(o.contract_digest, 'hex') as contract_digest, o.implementation,
         o.release, o.protected, o.registered_at, o.allowed_by, o.allowed_at, o.withdrawn_at, o.paused_at,
         o.allowed_implementation
    from effects_ledger.operation o;

create view audit.policies as
  select p.name, p.operation, p.version, t.path as task_path, p.actor, p.target, p.target_match, p.admissions_max,
         p.admissions_used, p.open_max, p.open_now, p.approvals_needed, p.requester_excluded, p.expires_at, p.added_by, p.added_at,
         p.revoked_at, p.precondition_enforced, p.prepared_within
    from effects_ledger.policy p left join effects_ledger.task t using (task_id);

create view audit.policy_costs as
  select p.name as policy, c.key as unit, c.value::bigint as amount
    from effects_ledger.policy p cross join jsonb_each_text(p.costs) as c;

create view audit.policy_approvers as
  select p.name as policy, a.approver from effects_ledger.policy_approver a join effects_ledger.policy p using (policy_id);

create view audit.approvers as
  select k.key_id, k.approver, encode(k.public_key, 'hex') as public_key, k.added_by, k.added_at, k.revoked_at
    from effects_ledger.approver k;

-- Why an approval did not count, as far as SQL can see. What is left is a signature that does not verify, one that was
-- not needed, or one that no worker has looked at yet.
create view audit.approvals as
  select a.approval_id, a.effect_id, a.verdict, a.approver, a.key_id, encode(a.digest, 'hex') as digest, a.expires_at, a.at,
         encode(a.statement, 'hex') as statement, encode(a.signature, 'hex') as signature, c.approval_id is not null as counted,
         case when a.verdict = 'refused' or c.approval_id is not null then null
              when a.revoked_at is not null then 'approval_revoked'
              when k.revoked_at is not null then 'key_revoked'
              when a.digest is distinct from b.digest then 'binding_differs'
              when e.admitted_at is null and a.expires_at <= clock_timestamp() then 'approval_expired'
              when e.state = 'prepared' then 'not_admitted_yet'
              when e.admitted_at is not null then 'not_needed_or_signature_wrong'
              else 'declined' end as counted_not,
         a.submitted_by, a.reason, a.revoked_at
    from effects_ledger.approval a
    join effects_ledger.effect e using (effect_id)
    left join effects_ledger.approver k using (key_id)
    left join effects_payload.binding b on b.effect_id = e.effect_id and b.revision = e.revision
    left join effects_ledger.permit_approval c on c.effect_id = a.effect_id and c.approval_id = a.approval_id;

create view audit.approval_costs as
  select a.approval_id, c.key as unit, c.value::bigint as amount
    from effects_ledger.approval a
    cross join json_each_text(convert_from(substring(a.statement from length('pg-effects/approval/1') + 2), 'UTF8')::json
                              -> 'maximum_cost') as c
   where a.statement is not null;

create view audit.pauses as
  select p.scope, p.target, p.reason, p.paused_by, p.paused_at, p.until from effects_ledger.pause p
   where p.until is null or p.until > clock_timestamp();

create view audit.permits as
  select p.permit_id, p.effect_id, encode(p.digest, 'hex') as digest, p.issued_under, p.issued_at, p.expires_at,
         p.consumed_at, encode(p.attempt_digest, 'hex') as attempt
    from effects_ledger.permit p;

create view audit.reservations as
  select v.effect_id || ' ' || v.task_id || ' ' || v.unit as reservation_id, v.effect_id, v.task_id as task,
         t.path as task_path, v.unit, v.amount as reserved, c.settled, c.overrun, c.standing, c.source, c.at
    from effects_ledger.reservation v
    join effects_ledger.task t using (task_id)
    join effects_ledger.cost c using (effect_id, unit);

create view audit.denials as
  select v.effect_id, v.at, v.detail ->> 'code' as code, coalesce(d.transient, false) as transient,
         v.detail - 'code' as detail, d.hint
    from effects_ledger.event v left join effects_ledger.denial d on d.code = v.detail ->> 'code'
   where v.event in ('denied', 'declined');

create view audit.authority as
  select a.at, a.by_role, a.change, a.object, a.before, a.after, a.reason, a.seq,
         encode(a.previous_hash, 'hex') as previous_hash, encode(a.hash, 'hex') as hash
    from effects_ledger.authority a;

create view audit.timeline as
  select v.effect_id, r.name, v.at, v.event as what, coalesce(v.by_worker, v.by_role) as by_role, v.detail
    from effects_ledger.event v join effects_ledger.request r using (effect_id)
  union all
  select i.effect_id, r.name, i.begun_at, i.kind || ' begun', i.worker,
         jsonb_build_object('reconciliation', i.reconciliation_id, 'requested_by', q.requested_by)
    from effects_ledger.inspection i join effects_ledger.request r using (effect_id)
    join effects_ledger.reconciliation q using (reconciliation_id)
  union all
  select i.effect_id, r.name, p.at, i.kind || ' answered ' || p.report, i.worker,
         jsonb_strip_nulls(jsonb_build_object('recorded', p.recorded, 'reason', p.reason, 'took_ms', p.took_ms))
    from effects_ledger.inspection_report p join effects_ledger.inspection i using (inspection_id)
    join effects_ledger.request r using (effect_id);

create view audit.violations as
  with chained as (
    select v.*, lag(v.hash) over of_effect as before, row_number() over of_effect as place,
           lag(v.to_state) over of_effect as state_before
      from effects_ledger.event v
    window of_effect as (partition by v.effect_id order by v.seq)
  ), last_event as (
    select distinct on (v.effect_id) v.effect_id, v.seq, v.hash, v.to_state from effects_ledger.event v
     order by v.effect_id, v.seq desc
  ), drawn as (
    select v.task_id, v.unit, sum(case when c.standing = 'reserved' then v.amount else 0 end) as reserved,
           sum(coalesce(c.settled, 0)) as spent
      from effects_ledger.reservation v left join effects_ledger.cost c using (effect_id, unit)
     group by v.task_id, v.unit
  ), ran_over as (
    select a.task_id, c.unit, least(sum(c.overrun), 9223372036854775807) as overrun
      from effects_ledger.cost c
      join effects_ledger.request r using (effect_id)
      join effects_ledger.task t using (task_id)
      cross join unnest(t.lineage) as a(task_id)
     where c.overrun > 0
     group by a.task_id, c.unit
  )
  select 'events are numbered without gaps' as violation, c.effect_id, 'event ' || c.seq as object,
         'is number ' || c.place || ' of its effect' as detail
    from chained c where c.seq <> c.place
  union all
  select 'each event follows the one before it', c.effect_id, 'event ' || c.seq, 'its previous hash is another''s'
    from chained c where c.previous_hash <> coalesce(c.before, effects_ledger.chain_start(c.effect_id))
  union all
  select 'each event hashes to its hash', c.effect_id, 'event ' || c.seq, 'its content was changed'
    from chained c
   where c.hash <> effects_ledger.event_hash(c.previous_hash, c.effect_id, c.seq, c.at, c.event, c.from_state, c.to_state,
                                             c.by_role, c.by_worker, c.detail)
  union all
  select 'each event starts where the one before it ended', c.effect_id, 'event ' || c.seq,
         format('from %s after %s', coalesce(c.from_state, 'nothing'), coalesce(c.state_before, 'nothing'))
    from chained c where c.from_state is distinct from c.state_before
  union all
  select 'an effect is the fold of its events', e.effect_id, 'effect',
         format('is %s at %s, its events say %s at %s', e.state, e.seq, coalesce(l.to_state, 'nothing'), coalesce(l.seq, 0))
    from effects_ledger.effect e left join last_event l using (effect_id)
   where (l.seq, l.hash, l.to_state) is distinct from (e.seq, e.head, e.state)
  union all
  select 'a request has its effect', r.effect_id, 'request', 'no effect row'
    from effects_ledger.request r where not exists (select from effects_ledger.effect e where e.effect_id = r.effect_id)
  union all
  select 'what was admitted has its permit, and only that', coalesce(e.effect_id, p.effect_id), 'permit',
         case when p.effect_id is null then 'missing' else 'not of this admission' end
    from effects_ledger.effect e full join effects_ledger.permit p using (effect_id)
   where (e.admitted_under in ('policy', 'ordinary')) is distinct from (p.effect_id is not null)
         and (e.admitted_at is not null or p.effect_id is not null)
      or p.attempt_digest is distinct from e.token_hash
      or p.issued_at is distinct from e.admitted_at
  union all
  select 'a permit is of the binding that was admitted', p.effect_id, 'permit', 'its digest is not the binding''s'
    from effects_ledger.permit p
    join effects_ledger.effect e using (effect_id)
    left join effects_payload.binding b on b.effect_id = e.effect_id and b.revision = e.revision
   where b.digest is distinct from p.digest
  union all
  select 'an outcome is its effect''s state', coalesce(e.effect_id, o.effect_id), 'outcome',
         format('recorded %s, the effect is %s', coalesce(o.outcome, 'nothing'), coalesce(e.state, 'nothing'))
    from effects_ledger.effect e full join effects_ledger.outcome o using (effect_id)
   where (e.state in ('accepted', 'failed', 'no_effect', 'uncertain') or o.effect_id is not null)
     and e.state is distinct from o.outcome
  union all
  select 'what still wants something is listed as live, and only that', e.effect_id, 'live',
         case when l.effect_id is null then 'missing' else 'listed after its end' end
    from effects_ledger.effect e
    left join effects_ledger.live l using (effect_id)
    left join effects_ledger.resolution z on z.effect_id = e.effect_id
   where (l.effect_id is not null) <>
         (e.state in ('requested', 'prepared', 'admitted') or e.state = 'uncertain' and z.effect_id is null)
  union all
  select 'a cost is held while its effect is open, and settled once it is not', c.effect_id, 'cost ' || c.unit,
         format('%s, the effect is %s', c.standing, coalesce(e.state, 'missing'))
    from effects_ledger.cost c
    left join effects_ledger.effect e using (effect_id)
    left join effects_ledger.resolution z on z.effect_id = c.effect_id
   where (c.standing = 'reserved') is distinct from
         (e.state = 'admitted' or e.state = 'uncertain' and z.effect_id is null)
  union all
  select 'a reservation is of a cost', v.effect_id, 'reservation ' || v.unit,
         format('%s reserved on task %s, the cost is %s', v.amount, v.task_id, coalesce(c.reserved::text, 'missing'))
    from effects_ledger.reservation v left join effects_ledger.cost c using (effect_id, unit)
   where c.reserved is distinct from v.amount
  union all
  select 'a budget''s sums are those of its reservations', null, format('budget %s of task %s', b.unit, b.task_id),
         format('reserved %s, spent %s, overrun %s; recomputed %s, %s, %s', b.reserved, b.spent, b.overrun,
                coalesce(d.reserved, 0), coalesce(d.spent, 0), coalesce(o.overrun, 0))
    from effects_ledger.budget b
    left join drawn d using (task_id, unit)
    left join ran_over o using (task_id, unit)
   where (b.reserved, b.spent, b.overrun) is distinct from
         (coalesce(d.reserved, 0)::bigint, coalesce(d.spent, 0)::bigint, coalesce(o.overrun, 0)::bigint)
  union all
  select 'a policy''s admissions are its permits, and its open effects are open', null, 'policy ' || p.name,
         format('%s admitted and %s open; recomputed %s and %s', p.admissions_used, p.open_now, coalesce(m.admitted, 0), coalesce(m.open, 0))
    from effects_ledger.policy p
    left join (select b.policy_id, count(*) as admitted,
                      count(*) filter (where e.state = 'admitted' or e.state = 'uncertain' and z.effect_id is null) as open
                 from effects_ledger.effect e
                 join effects_payload.binding b on b.effect_id = e.effect_id and b.revision = e.revision
                 left join effects_ledger.resolution z on z.effect_id = e.effect_id
                where e.admitted_under = 'policy' group by 1) as m using (policy_id)
   where p.operation is not null and (p.admissions_used, p.open_now) is distinct from (coalesce(m.admitted, 0), coalesce(m.open, 0))
  union all
  select 'what was admitted under a policy has the approvals that it wants', e.effect_id, 'policy ' || p.name,
         format('%s of %s approvers', coalesce(c.approvers, 0), p.approvals_needed)
    from effects_ledger.effect e
    join effects_payload.binding b on b.effect_id = e.effect_id and b.revision = e.revision
    join effects_ledger.policy p on p.policy_id = b.policy_id
    left join (select x.effect_id, count(distinct a.approver) as approvers
                 from effects_ledger.permit_approval x
                 join effects_ledger.approval a on a.approval_id = x.approval_id and a.effect_id = x.effect_id
                 join effects_ledger.permit m on m.effect_id = x.effect_id and m.digest = a.digest and m.issued_at >= a.at
                 join effects_payload.binding y on y.effect_id = x.effect_id and y.digest = m.digest
                 join effects_ledger.policy_approver n on n.policy_id = y.policy_id and n.approver = a.approver
                group by 1) as c on c.effect_id = e.effect_id
   where e.admitted_under = 'policy' and coalesce(c.approvers, 0) < p.approvals_needed
  union all
  select 'a lane is held by what is open', coalesce(l.effect_id, e.effect_id), 'lane ' || coalesce(l.lane, b.lane),
         format('the effect is %s', e.state)
    from effects_ledger.effect e
    join effects_payload.binding b on b.effect_id = e.effect_id and b.revision = e.revision
    left join effects_ledger.resolution z on z.effect_id = e.effect_id
    full join effects_ledger.lane l on l.effect_id = e.effect_id
   where (l.effect_id is not null) is distinct from
         (b.lane is not null and (e.state = 'admitted' or e.state = 'uncertain' and z.effect_id is null))
     and (l.effect_id is not null or b.lane is not null)
  union all
  select 'changes of authority are numbered, chained and unchanged', null, 'authority ' || a.seq, a.change
    from (select x.*, lag(x.hash) over (order by x.seq) as before_hash, row_number() over (order by x.seq) as place
            from effects_ledger.authority x) as a
   where a.seq <> a.place
      or a.previous_hash <> coalesce(a.before_hash, sha256(convert_to('pg-effects/authority-chain/1', 'UTF8')))
      or a.hash <> effects_ledger.authority_hash(a.previous_hash, a.seq, a.at, a.by_role, a.change, a.object, a.before,
                                                 a.after, a.reason)
  union all
  select 'the ledger is in the database it was written in', null, 'identity', effects_ledger.identity_standing()
   where effects_ledger.identity_standing() = 'unacknowledged';
comment on view audit.violations is 'Every broken invariant that SQL can see. Empty on a sound ledger.';

comment on view audit.effects is 'One row an effect: what was asked, by whom, under what, where it stands and how it ended.';
comment on view audit.costs is 'One row an effect and unit: what was reserved, settled and overrun.';
comment on view audit.unresolved is 'Effects of which nobody knows whether they happened.';
comment on view audit.events is 'Every event with its place in its effect''s hash chain.';
comment on view audit.reconciliations is 'Who asked about what is unresolved, until when, and how far it got.';
comment on view audit.evidence is 'What was reported about effects, in the words it came in.';
comment on view audit.budgets is 'Each budget with its sums; reserved_in_doubt is what unresolved effects hold.';
comment on view audit.tasks is 'Every task with its place in the tree, its deadline and how it ended.';
comment on view audit.operations is 'Every registered operation with its contract and what was decided about it.';
comment on view audit.pauses is 'What stands paused now, by whom, why and until when.';
comment on view audit.policies is 'Every policy with what it covers, what it wants, and what was used of it.';
comment on view audit.policy_costs is 'What one effect may cost under a policy, one row a unit. A unit not named may cost nothing.';
comment on view audit.policy_approvers is 'Who may approve under a policy.';
comment on view audit.approvers is 'Every key by which somebody may approve.';
comment on view audit.approvals is 'Every approval and refusal, and whether the admission counted it. Postgres checks no signature.';
comment on view audit.approval_costs is 'Up to what cost an approval reaches, one row a unit.';
comment on view audit.permits is 'Every permit, used as it was issued. The attempt is shown by its digest, never its token.';
comment on view audit.reservations is 'What each admission reserved on each ancestor, and how that ended.';
comment on view audit.denials is 'Every verdict against an effect, when its code changed.';
comment on view audit.authority is 'Who changed the rules, from what to what, and why, in a chain of its own.';
comment on view audit.timeline is 'Everything about an effect, people and machines, to be read in order of time.';

-- Nothing here is anybody's by default: roles get what they need by name.
revoke all on all functions in schema effects, effects_ledger from public;
revoke all on all procedures in schema effects_ledger from public;
