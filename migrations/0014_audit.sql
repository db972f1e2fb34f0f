-- The audit schema: what happened and what stands, in plain SQL. Columns are only ever added.
--
-- Invariants established here:
--   * nothing in this schema can be written: it holds views only;
--   * a reader needs no other schema: what a view shows it shows whole.

-- Whether it is unresolved, as effects_ledger.standing has it and not by way of it: of so many joins a planner keeps the order.
create view audit.effects as
  select e.effect_id, r.known_as as name, r.operation, r.version as operation_version, b.implementation, b.release,
         r.task_id as task, t.name as task_name, t.path as task_path, t.lineage[1] as root_task, t.subject, r.actor,
         r.requested_by, r.requested_at, b.prepared_at, e.admitted_at, o.at as outcome_at, r.not_before, r.expires_at,
         e.dispatch_deadline, e.state,
         case e.state when 'admitted' then e.unresolved_since is not null or e.dispatch_deadline <= statement_timestamp()
                      when 'uncertain' then z.effect_id is null else false end as unresolved,
         case when e.state = 'admitted' and (e.unresolved_since is not null or e.dispatch_deadline <= statement_timestamp())
                or e.state = 'uncertain' and z.effect_id is null
              then coalesce(e.unresolved_since, e.dispatch_deadline) end as unresolved_since, e.waiting_for, e.declined_reason, e.denial_code,
         e.admitted_under, r.invocation, p.name as policy, encode(b.digest, 'hex') as digest, b.binding_version,
         convert_from(b.bytes, 'UTF8')::json ->> 'target' as target, o.outcome, o.via as outcome_via, e.reference,
         case when y.effect_id is null then z.kind else 'evidence' end as resolution, coalesce(y.at, z.at) as resolved_at, r.key, r.recovery_epoch, coalesce(b.purged_at, i.purged_at) as purged_at,
         r.spoken_by, coalesce(y.says, z.says) as resolution_says,
         exists (select from effects_payload.evidence v where v.effect_id = e.effect_id and not v.agrees) as contradicted,
         r.run, r.follows, f.effect_id as followed_by, r.follow_reason
    from effects_ledger.effect e
    join effects_ledger.request r using (effect_id)
    join effects_ledger.task t using (task_id)
    left join effects_ledger.follower f on f.predecessor = e.effect_id
    left join effects_payload.binding b on b.effect_id = e.effect_id and b.revision = e.revision
    left join effects_payload.input i on i.effect_id = e.effect_id
    left join effects_ledger.policy p on p.policy_id = b.policy_id
    left join effects_ledger.outcome o on o.effect_id = e.effect_id
    left join effects_ledger.resolution z on z.effect_id = e.effect_id
    left join effects_ledger.resolution_after_risk y on y.effect_id = e.effect_id;

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

-- What is not settled: it waits, is in flight, or is in doubt.
create view audit.live as
  select l.effect_id, r.operation, t.path as task_path, r.requested_at, r.not_before, e.state, e.waiting_for,
         doubt.since is not null as unresolved, doubt.since as unresolved_since
    from effects_ledger.live l
    join effects_ledger.effect e using (effect_id)
    join effects_ledger.request r using (effect_id)
    join effects_ledger.task t using (task_id)
    cross join lateral (select case when e.state = 'uncertain' -- and not resolved: a resolved one is live no more
                                      or e.state = 'admitted' and (e.unresolved_since is not null
                                                                   or e.dispatch_deadline <= statement_timestamp())
                                    then coalesce(e.unresolved_since, e.dispatch_deadline) end) as doubt(since);

create view audit.outcomes as
  select o.effect_id, o.outcome, o.via, o.at, o.by_role, o.by_worker from effects_ledger.outcome o;

create view audit.events as
  select v.effect_id, v.seq, v.at, v.event, v.from_state, v.to_state, v.by_role, v.by_worker, v.detail,
         encode(v.previous_hash, 'hex') as previous_hash, encode(v.hash, 'hex') as hash
    from effects_ledger.event v;

create view audit.reconciliations as
  select r.reconciliation_id, r.requested_by, r.scope, r.scope_name,
         concat_ws(', ', 'lookup', case when r.allow_fence then 'fence' end, case when r.allow_resubmit then 'resubmit' end,
                   case when r.include_uncertain then 'uncertain' end) as allows, r.requested_at, r.deadline,
         run.started_at, case when run.open = 0 then run.ended_at end as ended_at,
         case when counts.operations = coalesce(run.finished, 0) then 'finished'
              when r.deadline <= clock_timestamp() or coalesce(run.open, 1) = 0 and run.runs = counts.operations
              then 'expired' end as ended,
         counts.in_scope, counts.inspected, counts.recorded, counts.could_not_ask,
         counts.in_scope - counts.inspected as not_reached,
         (select count(*) from effects_ledger.reconciliation_skip k where k.reconciliation_id = r.reconciliation_id) as skipped
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
  select i.reconciliation_id, i.effect_id, i.kind, i.begun_at, p.at, p.report, p.recorded, p.reason, p.conclusive_at,
         convert_from(v.bytes, 'UTF8')::json as evidence, encode(v.digest, 'hex') as evidence_digest, p.took_ms,
         i.worker, i.implementation, q.requested_by, q.deadline
    from effects_ledger.inspection i
    join effects_ledger.reconciliation q using (reconciliation_id)
    left join effects_ledger.inspection_report p using (inspection_id)
    left join effects_payload.evidence v on v.evidence_id = p.evidence_id;
comment on view audit.inspections is 'What each reconciliation asked and was told. Without a report: the call was begun and never answered.';

create view audit.evidence as
  select v.effect_id, v.at, v.source, v.submitted_by, v.source in ('dispatch', 'run', 'reconcile', 'operator', 'cleanup') or coalesce(x.authoritative, false) as authoritative, v.says,
         v.agrees, v.reference, convert_from(v.bytes, 'UTF8')::json as body, encode(v.digest, 'hex') as digest
    from effects_payload.evidence v left join effects_ledger.source x using (source);

create view audit.sources as
  select x.source, x.submitted_by, x.authoritative, x.added_by, x.added_at, x.revoked_at from effects_ledger.source x;

create view audit.resolutions as
  select z.effect_id, z.kind, z.source, z.says, z.by_role, z.at, z.reason, z.reference, encode(v.digest, 'hex') as evidence_digest
    from effects_ledger.resolution z left join effects_payload.evidence v using (evidence_id)
  union all
  select y.effect_id, 'evidence', y.source, y.says, y.by_role, y.at, y.reason, y.reference, encode(v.digest, 'hex')
    from effects_ledger.resolution_after_risk y left join effects_payload.evidence v using (evidence_id);

-- What evidence says that disagrees with what stood when it came, and what that effect cost; one row a unit.
create view audit.contradictions as
  select v.effect_id, v.at, v.source, v.says, coalesce(y.says, z.says, o.outcome, e.state) as recorded,
         case when c.unit is not null then coalesce(c.settled, c.reserved)::numeric + c.overrun end as amount_at_stake, c.unit
    from effects_payload.evidence v
    join effects_ledger.effect e using (effect_id)
    left join effects_ledger.outcome o on o.effect_id = v.effect_id
    left join effects_ledger.resolution z on z.effect_id = v.effect_id
    left join effects_ledger.resolution_after_risk y on y.effect_id = v.effect_id
    left join effects_ledger.cost c on c.effect_id = v.effect_id
   where not v.agrees;

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
  select v.effect_id, r.known_as as name, v.at, v.event as what, coalesce(v.by_worker, v.by_role) as by_role, v.detail
    from effects_ledger.event v join effects_ledger.request r using (effect_id)
  union all
  select x.effect_id, r.known_as, q.requested_at, 'reconciliation requested', q.requested_by,
         jsonb_strip_nulls(jsonb_build_object('reconciliation', q.reconciliation_id, 'scope', q.scope, 'scope_name',
           case when q.scope <> 'effect' then q.scope_name end, 'deadline', q.deadline))
    from effects_ledger.reconciliation_effect x join effects_ledger.request r using (effect_id)
    join effects_ledger.reconciliation q using (reconciliation_id)
  union all
  select i.effect_id, r.known_as, i.begun_at, i.kind || ' begun', i.worker,
         jsonb_build_object('reconciliation', i.reconciliation_id, 'requested_by', q.requested_by)
    from effects_ledger.inspection i join effects_ledger.request r using (effect_id)
    join effects_ledger.reconciliation q using (reconciliation_id)
  union all
  select i.effect_id, r.known_as, p.at, i.kind || ' answered ' || p.report, i.worker,
         jsonb_strip_nulls(jsonb_build_object('recorded', p.recorded, 'reason', p.reason, 'conclusive_at', p.conclusive_at,
           'evidence_digest', encode(v.digest, 'hex'), 'took_ms', p.took_ms))
    from effects_ledger.inspection_report p join effects_ledger.inspection i using (inspection_id)
    join effects_ledger.request r using (effect_id)
    left join effects_payload.evidence v on v.evidence_id = p.evidence_id
  union all
  select a.effect_id, r.known_as, h.at, 'approval_revoked', h.by_role,
         jsonb_build_object('approval', a.approval_id, 'approver', a.approver, 'reason', h.reason)
    from effects_ledger.approval a join effects_ledger.request r using (effect_id)
    join effects_ledger.authority h on h.change = 'approval revoked' and h.object = 'approval ' || a.approval_id
   where a.revoked_at is not null;

create view audit.reconciliation_effects as
  select x.reconciliation_id, x.effect_id, x.operation from effects_ledger.reconciliation_effect x;

create view audit.reconciliation_skips as
  select k.reconciliation_id, k.effect_id, k.because from effects_ledger.reconciliation_skip k;
comment on view audit.reconciliation_skips is 'What each reconciliation left out, and why: inline effects, whose code is their host''s.';

create view audit.denial_codes as
  select d.rank, d.code, d.transient, d.waiting_for, d.hint from effects_ledger.denial d;

create view audit.actors as
  select a.actor, a.registered_by, a.registered_at, a.revoked_at from effects_ledger.actor a;

create view audit.speakers as
  select s.actor, s.spoken_by, s.registered_by, s.registered_at from effects_ledger.speaker s;

create view audit.observers as
  select o.actor, o.task_id as task, t.path as task_path, o.added_by, o.added_at
    from effects_ledger.observer o join effects_ledger.task t using (task_id);

create view audit.workers as
  select w.worker, w.release, w.started_at, w.heartbeat_at, w.stopped_at, w.freed_at, cardinality(w.pools) as queues
    from effects_ledger.worker w;

create view audit.stranded_jobs as
  select j.locked_by as queue, min(j.locked_at) as since, count(*) as jobs from effects_queue._private_jobs j
   where j.locked_by is not null
     and not exists (select from effects_ledger.worker w where j.locked_by = any (w.pools) and w.stopped_at is null)
   group by j.locked_by;

create view audit.worker_operations as
  select w.worker, o.operation from effects_ledger.worker w cross join unnest(w.operations) as o(operation);

create view audit.ledger as
  select i.ledger_id, i.name, i.strict, i.role_prefix, i.founded_at, i.system_identifier, i.database_oid, i.timeline,
         i.recovery_epoch, effects_ledger.identity_standing() as standing, effects_ledger.durability_gap() as durability_gap
    from effects_ledger.identity i;

create view audit.migrations as
  select m.number, m.name, m.digest, m.applied_at from effects_migrations.applied m;

comment on view audit.effects is 'One row an effect: what was asked, by whom, under what, where it stands and how it ended.';
comment on view audit.costs is 'One row an effect and unit: what was reserved, settled and overrun.';
comment on view audit.unresolved is 'Effects of which nobody knows whether they happened.';
comment on view audit.live is 'What is not settled: it waits, is in flight, or is in doubt.';
comment on view audit.outcomes is 'What was recorded first about each effect that was admitted, when, and by whom.';
comment on view audit.events is 'Every event with its place in its effect''s hash chain.';
comment on view audit.reconciliations is 'Who asked about what is unresolved, until when, and how far it got.';
comment on view audit.evidence is 'What was reported about effects, in the words it came in.';
comment on view audit.sources is 'Who may submit evidence, and whose word settles doubt.';
comment on view audit.resolutions is 'What was settled beside an uncertain outcome, by whom, on what evidence and why.';
comment on view audit.contradictions is 'Evidence that disagrees with what was recorded before it. Nothing is merged away.';
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
comment on view audit.reconciliation_effects is 'What each reconciliation was about: what was unresolved when it was asked for.';
comment on view audit.denial_codes is 'Every code of a denial, in order of precedence: whether it passes by itself, and what to do.';
comment on view audit.actors is 'In whose name effects may be requested.';
comment on view audit.speakers is 'Which roles may request in the name of an actor that is not theirs.';
comment on view audit.observers is 'Who may observe the effects of a task that is not its own.';
comment on view audit.workers is 'Worker processes by heartbeat: who is alive, not what happened.';
comment on view audit.stranded_jobs is 'Jobs locked by a queue that no worker which has not stopped calls its own: a worker frees them within two minutes.';
comment on view audit.worker_operations is 'Which operations each worker runs.';
comment on view audit.ledger is 'Which ledger this is, where it was written, and why it is closed, if it is.';
comment on view audit.migrations is 'Which migrations made these tables, with the digests of their files.';

-- Nothing here is anybody's by default: roles get what they need by name.
revoke all on all functions in schema effects, effects_ledger from public;
revoke all on all procedures in schema effects_ledger from public;
