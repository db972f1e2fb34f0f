-- What is broken, in plain SQL.
--
-- Invariants established here:
--   * audit.violations is empty on a sound ledger, and each row names what is broken and where.

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
   where (e.admitted_under in ('policy', 'ordinary', 'inline')) is distinct from (p.effect_id is not null)
         and (e.admitted_at is not null or p.effect_id is not null)
      or p.effect_id is not null and p.attempt_digest is distinct from e.token_hash
      or p.effect_id is not null and p.issued_at is distinct from e.admitted_at
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
  select 'an effect has one follower that was not declined', coalesce(r.effect_id, f.effect_id),
         'follower of ' || coalesce(r.follows, f.predecessor),
         case when f.effect_id is null then 'it has not the place' else 'it has a place and is ' || coalesce(e.state, 'missing') end
    from (select q.effect_id, q.follows from effects_ledger.request q join effects_ledger.effect x using (effect_id)
           where q.follows is not null and x.state <> 'declined') as r
    full join effects_ledger.follower f on f.predecessor = r.follows and f.effect_id = r.effect_id
    left join effects_ledger.effect e on e.effect_id = f.effect_id
   where f.effect_id is null or coalesce(e.state, 'declined') = 'declined'
  union all
  select 'an admission that owes a cleanup has its obligation', c.effect_id, 'obligation', 'missing'
    from chained c where c.event = 'admitted' and c.detail ? 'cleanup'
     and not exists (select from effects_ledger.obligation o where o.effect_id = c.effect_id)
  union all
  select 'a cleanup is due once its effect is settled', o.effect_id, 'obligation',
         format('%s, the effect is %s', case when o.due_at is null then 'not due' else 'due' end, e.state)
    from effects_ledger.obligation o
    join effects_ledger.effect e using (effect_id)
    left join effects_ledger.resolution z using (effect_id)
   where (o.due_at is null) is distinct from (e.state = 'admitted' or e.state = 'uncertain' and z.effect_id is null)
  union all
  select 'changes of authority are numbered, chained and unchanged', null, 'authority ' || a.seq, a.change
    from (select x.*, lag(x.hash) over (order by x.seq) as before_hash, row_number() over (order by x.seq) as place
            from effects_ledger.authority x) as a
   where a.seq <> a.place
      or a.previous_hash <> coalesce(a.before_hash, sha256(convert_to('pg-effects/authority-chain/1', 'UTF8')))
      or a.hash <> effects_ledger.authority_hash(a.previous_hash, a.seq, a.at, a.by_role, a.change, a.object, a.before,
                                                 a.after, a.reason)
  union all
  select 'an inline effect was admitted as one, at no cost', r.effect_id, 'effect', format('run %s, admitted under %s', r.run, e.admitted_under)
    from effects_ledger.request r join effects_ledger.effect e using (effect_id)
   where (r.run is not null) is distinct from (e.admitted_under is not distinct from 'inline')
      or (r.run is not null) is distinct from (r.operation = 'inline')
      or r.run is not null and exists (select from effects_ledger.cost c where c.effect_id = r.effect_id and c.reserved > 0)
  union all
  select 'an invocation that succeeded left no effect without evidence', r.effect_id, 'invocation ' || v.invocation_id,
         format('the effect was %s when it ended', case when o.at <= v.ended_at then o.outcome else 'open' end)
    from effects_ledger.invocation v
    join effects_ledger.request r on r.invocation = v.invocation_id
    join effects_ledger.effect e on e.effect_id = r.effect_id
    left join effects_ledger.outcome o on o.effect_id = r.effect_id
    left join effects_ledger.resolution z on z.effect_id = r.effect_id
   where v.outcome = 'succeeded' and e.admitted_at <= v.ended_at
     and (o.at is null or o.at > v.ended_at or o.outcome = 'uncertain' and (z.at is null or z.at > v.ended_at))
  union all
  select 'a body hashes to its digest', b.effect_id, 'binding ' || b.revision, 'its bytes, payload or salt were changed'
    from effects_payload.binding b
   where b.purged_at is null
     and (b.digest is distinct from sha256(convert_to('pg-effects/binding/' || b.binding_version || chr(10), 'UTF8') || b.bytes)
          or b.payload_digest is distinct from sha256(convert_to('pg-effects/payload/1' || chr(10), 'UTF8') || b.salt || b.payload))
  union all
  select 'a body hashes to its digest', v.effect_id, 'evidence ' || v.evidence_id, 'its bytes were changed'
    from effects_payload.evidence v
   where v.purged_at is null and v.digest is distinct from sha256(convert_to('pg-effects/evidence/1' || chr(10), 'UTF8') || v.bytes)
  union all
  select 'a checkpoint''s root is that of the events it covers', null, 'checkpoint ' || c.checkpoint_id, 'recomputed it is another'
    from effects_ledger.checkpoint c where c.root_hash is distinct from effects_ledger.checkpoint_root(c.checkpoint_id)
  union all
  select 'checkpoints are numbered without gaps', null, 'checkpoint ' || c.checkpoint_id, 'is number ' || c.place
    from (select k.checkpoint_id, row_number() over (order by k.checkpoint_id) as place from effects_ledger.checkpoint k) as c
   where c.checkpoint_id <> c.place
  union all
  select 'the ledger is in the database it was written in', null, 'identity', effects_ledger.identity_gap()
   where effects_ledger.identity_gap() not in ('standby', 'closed');
comment on view audit.violations is 'Every broken invariant that SQL can see. Empty on a sound ledger.';
