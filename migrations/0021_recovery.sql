-- Recovery: what is done when this database may have lost a confirmed commit, or is another ledger by now (protocol, section 10).
--
-- Invariants established here:
--   * a closed ledger is opened by its owner only, with a reason, as one of three, and never by itself;
--   * nothing that may have been sent in a history that was lost is ever sent again: it is presumed admitted;
--   * nothing is called lost-nothing without a close marker, or every process's last confirmed admission found in place.

create function effects.close_ledger(reason text) returns json language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp
  as $$
  #variable_conflict use_column
  begin
    perform effects_ledger.check_reason(close_ledger.reason);
    if effects_ledger.identity_gap() is not null then
      perform effects_ledger.refuse('55000', format('the ledger is closed already: %s', effects_ledger.identity_gap()), 'recovery show says more');
    end if;
    update effects_ledger.identity i set closed_at = clock_timestamp(), written_by = pg_current_xact_id();
    perform effects_ledger.record_authority('ledger closed', 'ledger ' || i.name, null, null, close_ledger.reason) from effects_ledger.identity i;
    return effects_ledger.concerned(null, null, null, null);
  end $$;
comment on function effects.close_ledger is
  'Sets the close marker, before a planned switchover or upgrade: nothing is admitted until the owner acknowledges. Says what is still in flight.';

-- What acknowledging would meet, as one row.
create function effects_ledger.recovery_facts() returns jsonb language sql volatile security definer
  set search_path = pg_catalog, pg_temp
  as $$
    select jsonb_build_object('ledger', i.name, 'ledger_id', i.ledger_id, 'epoch', i.recovery_epoch, 'gap', effects_ledger.identity_gap(),
      'closed_at', i.closed_at, 'lost_admission', i.lost_admission,
      'violated_at', i.violated_at,
      'written', jsonb_build_object('system_identifier', i.system_identifier, 'timeline', i.timeline, 'database_oid', i.database_oid),
      'now', jsonb_build_object('system_identifier', (select c.system_identifier::text from pg_control_system() c),
                                'timeline', case when not pg_is_in_recovery() then effects_ledger.timeline_now() end,
                                'database_oid', (select d.oid from pg_database d where d.datname = current_database())),
      'waiting', (select count(*) from effects_ledger.live v join effects_ledger.effect e using (effect_id) where e.state in ('requested', 'prepared')),
      'open', (select count(*) from effects_ledger.live v join effects_ledger.effect e using (effect_id) where e.state in ('admitted', 'uncertain')),
      'unconfirmed_workers', (select count(*) from effects_ledger.worker w
                               where w.stopped_at is null and w.freed_at is null and not pg_is_in_recovery()
                                 and w.confirmed_on is distinct from effects_ledger.place_now()))
      from effects_ledger.identity i
  $$;

create function effects.acknowledge_recovery(commits text, reason text) returns json language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp
  as $$
  #variable_conflict use_column
  declare
    facts constant jsonb := effects_ledger.recovery_facts();
    earlier effects_ledger.identity;
    made bigint := 0;
    next_epoch constant uuid := gen_random_uuid();
  begin
    perform effects_ledger.check_reason(acknowledge_recovery.reason);
    if acknowledge_recovery.commits is null or acknowledge_recovery.commits not in ('copy', 'lost-nothing', 'possible-loss') then
      perform effects_ledger.refuse('22023', format('it commits to %s', effects_ledger.quoted(acknowledge_recovery.commits)),
                                    'say copy, lost-nothing or possible-loss');
    end if;
    select * into strict earlier from effects_ledger.identity for update;
    if facts ->> 'gap' is null then
      perform effects_ledger.refuse('55000', 'there is nothing to acknowledge: this database is the ledger it was', 'recovery show says so');
    elsif facts ->> 'gap' = 'standby' then
      perform effects_ledger.refuse('55000', 'this server is a standby', 'connect to the primary');
    elsif acknowledge_recovery.commits = 'lost-nothing' and earlier.lost_admission is not null then
      perform effects_ledger.refuse('PE121', format('loss_not_excluded: the admission of effect %s was confirmed and is gone', earlier.lost_admission),
                                    'acknowledge it as possible-loss');
    elsif acknowledge_recovery.commits = 'lost-nothing' and earlier.closed_at is null and (facts ->> 'unconfirmed_workers')::int > 0 then
      perform effects_ledger.refuse('PE121', format('loss_not_excluded: there is no close marker, and %s processes have not found their last confirmed admission',
                                      facts ->> 'unconfirmed_workers'), 'let them connect, or acknowledge it as possible-loss');
    elsif acknowledge_recovery.commits = 'lost-nothing' and earlier.closed_at is null
          and not exists (select from effects_ledger.worker w where w.stopped_at is null and w.freed_at is null
                             and w.last_admission is not null and w.confirmed_on = effects_ledger.place_now())
          and exists (select from effects_ledger.permit) then
      perform effects_ledger.refuse('PE121', 'loss_not_excluded: there is no close marker, and no process that knows what was confirmed',
                                    'acknowledge it as possible-loss; before a planned switchover, close the ledger first');
    end if;

    update effects_ledger.identity i
       set ledger_id = case acknowledge_recovery.commits when 'copy' then gen_random_uuid() else i.ledger_id end,
           system_identifier = (select c.system_identifier::text from pg_control_system() c),
           database_oid = (select d.oid from pg_database d where d.datname = current_database()),
           timeline = effects_ledger.timeline_now(), recovery_epoch = next_epoch, closed_at = null, lost_admission = null,
           written_by = pg_current_xact_id();
    if acknowledge_recovery.commits = 'copy' then
      made := effects_ledger.void_authority();
    elsif acknowledge_recovery.commits = 'possible-loss' then
      update effects_ledger.policy p set suspended_at = clock_timestamp() where p.operation is not null and p.revoked_at is null;
      made := effects_ledger.presume_admitted();
      update effects_ledger.budget b set suspended_at = clock_timestamp();
    end if;
    insert into effects_ledger.recovery (epoch, ledger_id, system_identifier, timeline, database_oid, gap, acknowledged_by, commits, reason,
                                         effects_made_unresolved)
    select next_epoch, i.ledger_id, i.system_identifier, i.timeline, i.database_oid, facts ->> 'gap', effects_ledger.actor_now(),
           acknowledge_recovery.commits, acknowledge_recovery.reason, made
      from effects_ledger.identity i;
    perform effects_ledger.record_authority('recovery acknowledged', 'ledger ' || earlier.name,
      jsonb_build_object('ledger_id', earlier.ledger_id, 'epoch', earlier.recovery_epoch, 'gap', facts ->> 'gap'),
      (select jsonb_build_object('ledger_id', i.ledger_id, 'epoch', i.recovery_epoch, 'commits', acknowledge_recovery.commits,
                                 'effects', made) from effects_ledger.identity i), acknowledge_recovery.reason);
    perform effects_ledger.requeue_waiting(null, null, null);
    return facts || (select jsonb_build_object('commits', acknowledge_recovery.commits, 'effects', made, 'epoch', i.recovery_epoch,
                                               'ledger_id', i.ledger_id) from effects_ledger.identity i);
  end $$;
comment on function effects.acknowledge_recovery is
  'Opens a closed ledger again as one of three: copy, another ledger now; lost-nothing, by a marker or every process''s memory; possible-loss: whatever waits is presumed sent.';

-- Another ledger: all authority of the former one is void, and what waits there is declined. Its actors stay: a name is no
-- authority, and what a protected operation wants beside it is gone.
create function effects_ledger.void_authority() returns bigint language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    waiting jsonb;
  begin
    update effects_ledger.policy p set revoked_at = clock_timestamp() where p.operation is not null and p.revoked_at is null;
    update effects_ledger.approver k set revoked_at = clock_timestamp() where k.revoked_at is null;
    update effects_ledger.task t set revoked_at = clock_timestamp() where t.revoked_at is null and t.name <> 'default';
    update effects_ledger.operation o set allowed_by = null, allowed_at = null, allowed_implementation = null;
    select jsonb_agg(jsonb_build_object('effect_id', e.effect_id, 'reason', 'revoked', 'code', 'recovery_unacknowledged',
                       'detail', jsonb_build_object('copied', true))) into waiting
      from effects_ledger.live v join effects_ledger.effect e using (effect_id) where e.state in ('requested', 'prepared');
    if waiting is not null then
      perform effects_ledger.record_declined(waiting, null);
    end if;
    return 0;
  end $$;

-- What waited may have been admitted and sent in the history that was lost. It is admitted now, without a permit and without
-- a token, so that nobody can dispatch it, at its maximum; somebody asks its recipient.
create function effects_ledger.presume_admitted() returns bigint language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    moment constant timestamptz := clock_timestamp();
    each record;
    charge record;
    made bigint := 0;
  begin
    perform set_config('effects_ledger.presuming', 'on', true);
    for each in
      select e.effect_id, e.state, e.revision, r.operation, r.version, r.actor, r.expires_at, t.lineage, i.given
        from effects_ledger.live v
        join effects_ledger.effect e using (effect_id)
        join effects_ledger.request r using (effect_id)
        join effects_ledger.task t using (task_id)
        left join effects_payload.input i using (effect_id)
       where e.state in ('requested', 'prepared') order by e.effect_id
    loop
      if each.state = 'requested' then
        perform effects_ledger.record_prepared(jsonb_build_array(effects_ledger.presumed_binding(each.effect_id)), 'recovery');
      end if;
      insert into effects_ledger.cost (effect_id, unit, reserved, at)
      select each.effect_id, c.key, c.value::bigint, moment
        from effects_ledger.effect e
        join effects_payload.binding b on b.effect_id = e.effect_id and b.revision = e.revision
        cross join jsonb_each_text(b.cost) as c
       where e.effect_id = each.effect_id;
      insert into effects_ledger.obligation (effect_id, opened_at)
      select each.effect_id, moment from effects_ledger.operation o
       where (o.operation, o.version) = (each.operation, each.version) and o.contract ->> 'cleanup' = 'required';
      for charge in
        select b.task_id, b.unit, c.reserved from effects_ledger.cost c
          join effects_ledger.budget b on b.unit = c.unit and b.task_id = any (each.lineage)
         where c.effect_id = each.effect_id order by b.task_id, b.unit
      loop
        insert into effects_ledger.reservation (effect_id, task_id, unit, amount)
        values (each.effect_id, charge.task_id, charge.unit, charge.reserved);
        update effects_ledger.budget b set reserved = b.reserved + charge.reserved
         where b.task_id = charge.task_id and b.unit = charge.unit;
      end loop;
      perform effects_ledger.move_to_presumed(each.effect_id, moment);
      made := made + 1;
    end loop;
    perform set_config('effects_ledger.presuming', 'off', true);
    return made;
  end $$;

-- A binding for what was never prepared here: it says no more than the request did.
create function effects_ledger.presumed_binding(about uuid) returns jsonb language sql volatile
  set search_path = pg_catalog, pg_temp
  as $$
    with body as (
      select r.effect_id, r.expires_at, coalesce(i.given::text, 'null') as payload, encode(uuid_send(gen_random_uuid()), 'hex') as salt,
             json_build_object('account', null, 'actor', r.actor, 'effect', r.effect_id, 'expires_at_ms', floor(extract(epoch from r.expires_at) * 1000),
               'implementation', 'recovery', 'ledger', l.ledger_id, 'maximum_cost', '{}'::json, 'operation', r.operation, 'policy', null,
               'policy_revision', null, 'precondition', null, 'presumed', true, 'preview', r.operation || ' (presumed)', 'release', 'recovery',
               'subject', t.subject, 'target', r.operation, 'task', r.task_id, 'version', r.version)::text as bytes
        from effects_ledger.request r
        join effects_ledger.task t using (task_id)
        cross join effects_ledger.identity l
        left join effects_payload.input i using (effect_id)
       where r.effect_id = about)
    select jsonb_build_object('effect_id', b.effect_id, 'revision', 1, 'binding_version', 1, 'bytes', b.bytes,
      'digest', encode(sha256(convert_to('pg-effects/binding/1' || chr(10), 'UTF8') || convert_to(b.bytes, 'UTF8')), 'hex'),
      'salt', b.salt, 'payload', b.payload,
      'payload_digest', encode(sha256(convert_to('pg-effects/payload/1' || chr(10), 'UTF8') || decode(b.salt, 'hex')
                                      || convert_to(b.payload, 'UTF8')), 'hex'),
      'implementation', 'recovery', 'release', 'recovery', 'policy_id', null, 'lane', null, 'rebound', false, 'cost', '{}'::jsonb,
      'expires_at_ms', floor(extract(epoch from b.expires_at) * 1000))
      from body b
  $$;

-- The move itself, with its event.
create function effects_ledger.move_to_presumed(about uuid, moment timestamptz) returns void language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    actor constant text := effects_ledger.actor_now();
    detail constant jsonb := '{"admitted_under": "recovery"}';
    e effects_ledger.effect;
    next_hash bytea;
  begin
    select * into strict e from effects_ledger.effect x where x.effect_id = about for no key update;
    next_hash := effects_ledger.event_hash(e.head, about, e.seq + 1, moment, 'admitted', 'prepared', 'admitted', actor, null, detail);
    insert into effects_ledger.event (effect_id, seq, at, event, from_state, to_state, by_role, by_worker, detail, previous_hash, hash)
    values (about, e.seq + 1, moment, 'admitted', 'prepared', 'admitted', actor, null, detail, e.head, next_hash);
    update effects_ledger.effect x
       set state = 'admitted', seq = e.seq + 1, head = next_hash, waiting_for = null, denial_code = null, admitted_under = 'recovery',
           admitted_at = moment, dispatch_deadline = moment, unresolved_since = moment
     where x.effect_id = about;
    perform effects_ledger.give_notice(array[about], 'unresolved');
  end $$;

create function effects.confirm_policy(name text, reason text) returns void language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp
  as $$
  #variable_conflict use_column
  declare
    known effects_ledger.policy;
  begin
    perform effects_ledger.check_reason(confirm_policy.reason);
    select * into known from effects_ledger.policy p where p.name = confirm_policy.name and p.operation is not null for no key update;
    if not found then
      perform effects_ledger.refuse('PE113', format('policy_unknown: no policy is named %s', effects_ledger.quoted(confirm_policy.name)), 'audit.policies lists them');
    elsif known.suspended_at is not null then
      update effects_ledger.policy p set suspended_at = null where p.policy_id = known.policy_id;
      perform effects_ledger.record_authority('policy confirmed', 'policy ' || known.name, null, effects_ledger.policy_words(known), confirm_policy.reason);
      perform effects_ledger.requeue_waiting(null, known.operation, null);
    end if;
  end $$;
comment on function effects.confirm_policy is
  'Lets a policy stand again that a recovery suspended. A budget is confirmed by setting it.';

create function effects.attest_durability(reason text) returns void language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp
  as $$
  #variable_conflict use_column
  begin
    perform effects_ledger.check_reason(attest_durability.reason);
    update effects_ledger.identity i set durability_attested = attest_durability.reason, written_by = pg_current_xact_id();
    perform effects_ledger.record_authority('durability attested', 'ledger ' || i.name, null,
      jsonb_build_object('fsync', current_setting('fsync'), 'full_page_writes', current_setting('full_page_writes')), attest_durability.reason)
      from effects_ledger.identity i;
  end $$;
comment on function effects.attest_durability is
  'The owner says, on record for ever, that this storage keeps what it confirms without fsync or full_page_writes.';

create function effects.demand_synchronous_standby(demanded boolean, reason text) returns void language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp
  as $$
  #variable_conflict use_column
  begin
    perform effects_ledger.check_reason(demand_synchronous_standby.reason);
    update effects_ledger.identity i set synchronous_standby = coalesce(demanded, false), written_by = pg_current_xact_id();
    perform effects_ledger.record_authority('synchronous standby ' || case when demanded then 'demanded' else 'no longer demanded' end,
      'ledger ' || i.name, null, null, demand_synchronous_standby.reason) from effects_ledger.identity i;
  end $$;
comment on function effects.demand_synchronous_standby is
  'Nothing is admitted while the server waits for no synchronous standby: a failover then loses no confirmed admission.';

-- A violation that an operator or the owner found closes admission, until the owner says that it is understood.
create function effects.report_violation(what text) returns void language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp
  as $$
  #variable_conflict use_column
  begin
    perform effects_ledger.check_reason(report_violation.what);
    update effects_ledger.identity i set violated_at = clock_timestamp(), written_by = pg_current_xact_id() where i.violated_at is null;
    if found then
      perform effects_ledger.record_authority('violation found', 'ledger ' || i.name, null, null, report_violation.what) from effects_ledger.identity i;
    end if;
  end $$;
comment on function effects.report_violation is 'Closes admission because the record does not hold together: what `audit verify` calls when it finds something.';

create function effects.acknowledge_violation(reason text) returns void language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp
  as $$
  #variable_conflict use_column
  begin
    perform effects_ledger.check_reason(acknowledge_violation.reason);
    update effects_ledger.identity i set violated_at = null, written_by = pg_current_xact_id() where i.violated_at is not null;
    if not found then
      perform effects_ledger.refuse('55000', 'there is no violation to acknowledge', 'audit.violations lists what stands');
    end if;
    perform effects_ledger.record_authority('violation acknowledged', 'ledger ' || i.name, null, null, acknowledge_violation.reason)
      from effects_ledger.identity i;
    perform effects_ledger.requeue_waiting(null, null, null);
  end $$;
comment on function effects.acknowledge_violation is 'Opens admission again after a violation that was looked into. It stays in audit.violations.';

-- Why the ledger is closed, if it is, and what acknowledging would meet.
create view audit.recovery as
  select f.facts ->> 'gap' as gap, (f.facts ->> 'closed_at')::timestamptz as closed_at, (f.facts ->> 'lost_admission')::uuid as lost_admission,
         (f.facts ->> 'violated_at')::timestamptz as violated_at, f.facts -> 'written' as written, f.facts -> 'now' as now,
         (f.facts ->> 'waiting')::bigint as waiting, (f.facts ->> 'open')::bigint as open,
         (f.facts ->> 'unconfirmed_workers')::bigint as unconfirmed_workers
    from (select effects_ledger.recovery_facts() as facts) as f;
comment on view audit.recovery is 'Whether this database is the ledger it was, and what an acknowledgement would meet.';

create view audit.recoveries as
  select c.epoch, c.ledger_id, c.system_identifier, c.timeline, c.database_oid, c.gap, c.acknowledged_by, c.acknowledged_at,
         c.commits, c.reason, c.effects_made_unresolved
    from effects_ledger.recovery c;
comment on view audit.recoveries is 'Every recovery that the owner acknowledged, and as what.';

revoke all on all functions in schema effects, effects_ledger from public;
