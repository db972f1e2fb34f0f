-- What applications call to ask: request an effect inside their own transaction.
--
-- Invariants established here:
--   * a name asks for the same effect or is refused with the path that differs;
--   * who may ask, for what and until when, is checked here, and decided at the admission.

-- Who acts: the role in force, or the actor that it names and speaks for. Registered, where the ledger is not strict, at
-- its first request. Here the right to act is advice; admission looks again.
create function effects_ledger.acting(named text) returns text language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    speaking constant text := effects_ledger.actor_now();
    acting constant text := coalesce(named, speaking);
    known effects_ledger.actor;
    ledger effects_ledger.identity;
  begin
    select * into ledger from effects_ledger.identity;
    select * into known from effects_ledger.actor a where a.actor = acting;
    if acting <> speaking and effects_ledger.spoken_for(acting) is null then
      perform effects_ledger.refuse('42501', format('%s does not speak for the actor %s', speaking, effects_ledger.quoted(acting)),
                                    'leave actor out, SET ROLE to it, or have the owner let it speak: pg-effects actor add');
    elsif not effects_ledger.may_serve(acting, nullif(speaking, acting)) then
      perform effects_ledger.refuse('42501', format('%s may not request: it is no member of %sservice', speaking, ledger.role_prefix),
                                    format('grant %I to %I', ledger.role_prefix || 'service', speaking));
    elsif known.revoked_at is not null then
      perform effects_ledger.refuse('42501', format('the actor %s is revoked', acting), 'the owner decides on it');
    elsif known.actor is null then
      if ledger."strict" then
        perform effects_ledger.refuse('42501', format('the actor %s is not registered', acting), 'the owner registers it: pg-effects actor add');
      end if;
      insert into effects_ledger.actor (actor, registered_by) values (acting, session_user) on conflict do nothing;
    end if;
    return acting;
  end $$;

-- One request as it was asked for: the parameters of effects.enqueue, but for the operation, which is all of a batch's.
create type effects_ledger.asked as (
  ordinal int, input json, task text, name text, notify text, not_before timestamptz, expires_at timestamptz, priority int,
  on_denial text, follows uuid, follow_max int, actor text, invocation uuid, trace text
);

-- What a request has of the effect that it follows. Where `requested_by` is null, its rights are the caller's own.
create type effects_ledger.line as (
  follows uuid, follow_max int, followed int, called text, reason text, requested_by text, spoken_by text, by_role text, by_worker text
);

-- The same, checked: as it will be written, or the earlier effect that it asks for again.
create type effects_ledger.checked as (
  ordinal int, effect_id uuid, replayed boolean, input json, given_digest bytea, task_id uuid, name text, actor text,
  notify text, not_before timestamptz, expires_at timestamptz, priority int, on_denial text, trace text, invocation uuid,
  line effects_ledger.line
);

-- Checks requests in their order. `numbered`: a refusal says which one it is about.
create function effects_ledger.check_requests(asked effects_ledger.asked[], numbered boolean, operation text,
    ledger effects_ledger.identity, kind effects_ledger.operation, moment timestamptz)
  returns effects_ledger.checked[] language plpgsql set search_path = pg_catalog, pg_temp
  as $$
  declare
    each effects_ledger.asked;
    checked effects_ledger.checked[];
    within effects_ledger.task;
    acting text;
    acting_as text;
    earlier effects_ledger.request;
    given jsonb;
    given_digest bytea;
    line effects_ledger.line;
    ends timestamptz;
    code text;
    said text;
    advice text;
  begin
    foreach each in array asked loop
      if each.on_denial is null or each.on_denial not in ('wait', 'decline') then
        perform effects_ledger.refuse('22023', 'on_denial is ' || coalesce(each.on_denial, 'null'), 'give wait or decline');
      elsif each.priority is null then
        perform effects_ledger.refuse('22023', 'priority is null', 'give an integer; smaller goes first');
      elsif each.priority not between -32768 and 32767 then
        perform effects_ledger.refuse('22023', 'priority is outside -32768 to 32767', 'give a smaller number; smaller goes first');
      elsif length(each.name) not between 1 and 200 then
        perform effects_ledger.refuse('22023', 'a name has 1 to 200 characters', 'give a shorter name');
      elsif length(each.trace) > 512 then
        perform effects_ledger.refuse('22023', 'a trace has at most 512 characters', 'give a shorter trace');
      elsif each.follow_max not between 0 and 100 then
        perform effects_ledger.refuse('22023', 'follow_max is outside 0 to 100', 'say how often it is tried again by itself, at most');
      elsif each.notify !~ '^[a-z][a-z0-9_]{0,62}$' then
        perform effects_ledger.refuse('22023', format('the inbox %s is refused', effects_ledger.quoted(each.notify)),
                                      'an inbox is a lower-case word of at most 63 characters');
      end if;
      given := effects_ledger.faithful(each.input);
      given_digest := sha256(convert_to(given::text, 'UTF8'));
      if within.name is distinct from each.task or within.name is null then
        select * into within from effects_ledger.task t where t.name = each.task;
        if not found then
          perform effects_ledger.refuse('PE103', format('task_unknown: no task is named %s', effects_ledger.quoted(each.task)),
                                        'open it with effects.open_task');
        end if;
      end if;
      if acting is null or acting_as is distinct from each.actor then
        acting := effects_ledger.acting(each.actor);
        acting_as := each.actor;
      end if;
      if within.actor <> acting then
        perform effects_ledger.refuse('42501', format('the task %s is not of the actor %s', effects_ledger.quoted(each.task), acting),
                                      'request under a task of your own');
      end if;
      perform effects_ledger.check_invocation(each.invocation, acting);

      if each.name is not null then
        select * into earlier from effects_ledger.request r
         where r.task_id = within.task_id and r.name = each.name and r.run is null;
        if found then
          checked := checked || row(each.ordinal, effects_ledger.same_request(earlier, operation, given, given_digest, acting, each.follows), true,
            null, null, null, null, null, null, null, null, null, null, null, null, null)::effects_ledger.checked;
          continue;
        end if;
      end if;
      if within.ended_at is not null or within.revoked_at is not null or within.deadline <= moment then
        perform effects_ledger.refuse('PE108', format('task_ended: the task %s has ended', effects_ledger.quoted(each.task)),
                                      'request under a live task');
      elsif kind.operation is null or kind.operation = 'inline' then
        perform effects_ledger.refuse('PE101', format('operation_unknown: no operation is named %s', effects_ledger.quoted(operation)),
                                      'start a worker that has it once; it registers its operations');
      end if;
      perform effects_ledger.check_live(each.invocation);
      line := null;
      if each.follows is not null or each.follow_max is not null then
        line := effects_ledger.line_behind(each.follows, each.follow_max, acting, within.task_id);
      end if;
      ends := least(each.expires_at, moment + make_interval(secs => (kind.contract ->> 'expiresAfterMs')::numeric / 1000.0));
      if ends <= moment then
        perform effects_ledger.refuse('22023', 'expires_at is in the past', 'give a moment ahead, or none');
      elsif each.not_before >= ends then
        perform effects_ledger.refuse('22023', format('not_before is not before it expires, at %s', ends),
                                      'give an earlier not_before or a later expires_at');
      end if;
      checked := checked || row(each.ordinal, effects_ledger.new_id(), false, each.input, given_digest, within.task_id,
        each.name, acting, each.notify, each.not_before, ends, each.priority, each.on_denial, each.trace,
        each.invocation, line)::effects_ledger.checked;
    end loop;
    return checked;
  exception when others then
    get stacked diagnostics code = returned_sqlstate, said = message_text, advice = pg_exception_hint;
    -- What was refused; a conflict or a fault of the server's goes on as it is.
    if not numbered or code !~ '^(PE|22|42501|0A)' then
      raise;
    end if;
    raise exception using errcode = code, message = format('%s (request %s)', said, each.ordinal), hint = advice,
                          detail = json_build_object('ordinal', each.ordinal);
  end $$;

-- Writes requests that are new: one insert a table, one insert of jobs. Returns those that it wrote; another one's name was
-- taken meanwhile, by somebody else or by a request before it.
create function effects_ledger.write_requests(checked effects_ledger.checked[], ledger effects_ledger.identity,
    kind effects_ledger.operation, moment timestamptz)
  returns uuid[] language plpgsql set search_path = pg_catalog, pg_temp
  as $$
  declare
    written uuid[];
    jobs effects_queue.job_spec[];
  begin
    with wanted as materialized (
      select * from unnest(checked) as c where not c.replayed
    ), requested as (
      -- In the order of names, so that batches that share some wait for each other and never both.
      insert into effects_ledger.request (effect_id, key, operation, version, task_id, name, actor, requested_by, spoken_by,
        requested_at, given_digest, not_before, expires_at, priority, on_denial, trace, recovery_epoch, notify, invocation,
        follows, follow_max, followed, called, follow_reason)
      select w.effect_id, substr(encode(sha256(convert_to('pg-effects/key/1 ' || ledger.ledger_id || ' ' || w.effect_id,
               'UTF8')), 'hex'), 1, 32),
             kind.operation, kind.version, w.task_id, w.name, w.actor, coalesce((w.line).requested_by, session_user),
             case when (w.line).requested_by is null then nullif(effects_ledger.actor_now(), w.actor) else (w.line).spoken_by end,
             moment, w.given_digest, w.not_before, w.expires_at, w.priority, w.on_denial, w.trace, ledger.recovery_epoch,
             w.notify, w.invocation, (w.line).follows, (w.line).follow_max, coalesce((w.line).followed, 0), (w.line).called,
             (w.line).reason
        from wanted w order by w.task_id, w.name, w.ordinal
      on conflict (task_id, name) where name is not null and run is null do nothing
      returning effect_id
    ), fresh as materialized (
      select w.*, d.detail, d.by_role, effects_ledger.chain_start(w.effect_id) as previous,
             effects_ledger.event_hash(effects_ledger.chain_start(w.effect_id), w.effect_id, 1, moment, 'requested', null,
                                       'requested', d.by_role, (w.line).by_worker, d.detail) as hash
        from wanted w
        join requested using (effect_id)
        cross join lateral (select coalesce((w.line).by_role, w.actor) as by_role,
          jsonb_build_object('operation', kind.operation, 'version', kind.version, 'task', w.task_id,
                             'actor', w.actor, 'given_digest', encode(w.given_digest, 'hex'))
          || case when (w.line).follows is null then '{}' else jsonb_strip_nulls(jsonb_build_object('follows', (w.line).follows,
               'followed', nullif((w.line).followed, 0), 'reason', (w.line).reason)) end as detail) as d
    ), bodies as (
      insert into effects_payload.input (effect_id, given) select f.effect_id, f.input from fresh f
    ), effects as (
      insert into effects_ledger.effect (effect_id, state, seq, head) select f.effect_id, 'requested', 1, f.hash from fresh f
    ), events as (
      insert into effects_ledger.event (effect_id, seq, at, event, from_state, to_state, by_role, by_worker, detail,
        previous_hash, hash)
      select f.effect_id, 1, moment, 'requested', null, 'requested', f.by_role, (f.line).by_worker, f.detail, f.previous, f.hash
        from fresh f
    ), waiting as (
      insert into effects_ledger.live (effect_id) select f.effect_id from fresh f
    )
    select array_agg(f.effect_id),
           array_agg(row(kind.operation, json_build_object('effect_id', f.effect_id), null, greatest(f.not_before, now()), null,
                         f.effect_id, f.priority, null)::effects_queue.job_spec order by f.ordinal)
      into written, jobs from fresh f;
    if written is not null then
      perform effects_queue.add_jobs(jobs);
      perform effects_ledger.take_places(c.effect_id, (c.line).follows, (c.line).by_worker)
         from unnest(checked) as c where (c.line).follows is not null and c.effect_id = any (written);
    end if;
    return coalesce(written, '{}');
  end $$;

-- The version that a first request takes: the newest; of a protected operation's, one that is allowed.
create function effects_ledger.newest_version(operation text, is_strict boolean) returns effects_ledger.operation
  language sql stable set search_path = pg_catalog, pg_temp
  as $$
    select o.* from effects_ledger.operation o where o.operation = newest_version.operation
     order by not (o.protected or is_strict) or o.allowed_at is not null desc, o.version desc limit 1
  $$;

-- Requests effects of one operation, all of them or, by an error, none.
create function effects_ledger.request_effects(operation text, asked effects_ledger.asked[], numbered boolean)
  returns table (ordinal int, effect_id uuid, replayed boolean) language plpgsql set search_path = pg_catalog, pg_temp
  as $$
  #variable_conflict use_column
  declare
    ledger effects_ledger.identity;
    kind effects_ledger.operation;
    moment constant timestamptz := clock_timestamp();
    pending effects_ledger.asked[] := asked;
    checked effects_ledger.checked[];
    each effects_ledger.checked;
    fresh int;
    written uuid[];
  begin
    select * into ledger from effects_ledger.identity;
    if not found then
      perform effects_ledger.refuse('55000', 'this database holds no ledger yet', 'run pg-effects migrate');
    end if;
    kind := effects_ledger.newest_version(request_effects.operation, ledger."strict");
    while cardinality(pending) > 0 loop
      checked := effects_ledger.check_requests(pending, numbered, request_effects.operation, ledger, kind, moment);
      written := effects_ledger.write_requests(checked, ledger, kind, moment);
      fresh := 0;
      foreach each in array checked loop
        fresh := fresh + (not each.replayed)::int;
      end loop;
      if fresh = cardinality(written) then
        -- As nearly always; a statement here would cost a single request a tenth.
        foreach each in array checked loop
          ordinal := each.ordinal; effect_id := each.effect_id; replayed := each.replayed;
          return next;
        end loop;
        return;
      end if;
      return query select c.ordinal, c.effect_id, c.replayed from unnest(checked) as c
        where c.replayed or c.effect_id in (select unnest(written));
      -- A name that was taken while this was written is an earlier request's now, and is compared with it.
      pending := array(select p from unnest(pending) as p
                         join unnest(checked) as c on c.ordinal = p.ordinal
                        where not c.replayed and c.effect_id not in (select unnest(written)) order by p.ordinal);
    end loop;
  end $$;

create function effects.enqueue(operation text, input json, task text default 'default', name text default null,
                                notify text default null, not_before timestamptz default null,
                                expires_at timestamptz default null, priority int default 0,
                                on_denial text default 'wait', follows uuid default null, follow_max int default null,
                                actor text default null, invocation uuid default null, trace text default null)
  returns uuid language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
  as $$
  declare
    asked constant effects_ledger.asked := row(1, enqueue.input, enqueue.task, enqueue.name, enqueue.notify, enqueue.not_before,
      enqueue.expires_at, enqueue.priority, enqueue.on_denial, enqueue.follows, enqueue.follow_max, enqueue.actor,
      enqueue.invocation, enqueue.trace)::effects_ledger.asked;
  begin
    return (select r.effect_id from effects_ledger.request_effects(enqueue.operation, array[asked], false) as r);
  end $$;
comment on function effects.enqueue is
  'Requests an effect inside the caller''s own transaction; a worker carries it out after it commits.';
