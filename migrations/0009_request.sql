-- What applications call to ask: request an effect inside their own transaction, open a task.
--
-- Invariants established here:
--   * a name asks for the same effect or is refused with the path that differs;
--   * a parameter whose part is not built raises 0A000 and is never ignored.

-- The acting role, registered: on a ledger that is not strict, at its first request.
create function effects_ledger.acting(named text) returns text language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    acting constant text := effects_ledger.actor_now();
    known effects_ledger.actor;
  begin
    if named is not null and named <> acting then
      perform effects_ledger.refuse('42501', format('%s does not speak for the actor %s', acting, to_json(named)),
                                    'leave actor out, or SET ROLE to it first');
    end if;
    select * into known from effects_ledger.actor a where a.actor = acting;
    if not found then
      if (select i.strict from effects_ledger.identity i) then
        perform effects_ledger.refuse('42501', format('the actor %s is not registered', acting), 'the owner registers it');
      end if;
      insert into effects_ledger.actor (actor, registered_by) values (acting, session_user) on conflict do nothing;
    elsif known.revoked_at is not null then
      perform effects_ledger.refuse('42501', format('the actor %s is revoked', acting), 'the owner decides on it');
    end if;
    return acting;
  end $$;

create function effects.enqueue(operation text, input json, task text default 'default', name text default null,
                                notify text default null, not_before timestamptz default null,
                                expires_at timestamptz default null, priority int default 0,
                                on_denial text default 'wait', follows uuid default null, follow_max int default null,
                                actor text default null, invocation uuid default null, trace text default null)
  returns uuid language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
  as $$
  #variable_conflict use_column
  declare
    ledger effects_ledger.identity;
    within effects_ledger.task;
    kind effects_ledger.operation;
    earlier effects_ledger.request;
    id constant uuid := effects_ledger.new_id();
    moment constant timestamptz := clock_timestamp();
    acting text;
    given jsonb;
    given_digest bytea;
    ends timestamptz;
    detail jsonb;
  begin
    if notify is not null then perform effects_ledger.refuse('0A000', 'notify is not built yet', 'leave it out'); end if;
    if enqueue.follows is not null then perform effects_ledger.refuse('0A000', 'follows is not built yet', 'leave it out'); end if;
    if follow_max is not null then perform effects_ledger.refuse('0A000', 'follow_max is not built yet', 'leave it out'); end if;
    if enqueue.invocation is not null then perform effects_ledger.refuse('0A000', 'invocation is not built yet', 'leave it out'); end if;
    if enqueue.on_denial is null or enqueue.on_denial not in ('wait', 'decline') then
      perform effects_ledger.refuse('22023', 'on_denial is ' || coalesce(enqueue.on_denial, 'null'), 'give wait or decline');
    elsif enqueue.priority is null then
      perform effects_ledger.refuse('22023', 'priority is null', 'give an integer; smaller goes first');
    elsif enqueue.priority not between -32768 and 32767 then
      perform effects_ledger.refuse('22023', 'priority is outside -32768 to 32767', 'give a smaller number; smaller goes first');
    elsif length(enqueue.name) not between 1 and 200 then
      perform effects_ledger.refuse('22023', 'a name has 1 to 200 characters', 'give a shorter name');
    elsif length(enqueue.trace) > 512 then
      perform effects_ledger.refuse('22023', 'a trace has at most 512 characters', 'give a shorter trace');
    end if;
    select * into ledger from effects_ledger.identity;
    if not found then
      perform effects_ledger.refuse('55000', 'this database holds no ledger yet', 'run pg-effects migrate');
    end if;
    given := effects_ledger.faithful(input);
    given_digest := sha256(convert_to(given::text, 'UTF8'));
    select * into within from effects_ledger.task t where t.name = enqueue.task;
    if not found then
      perform effects_ledger.refuse('PE103', format('task_unknown: no task is named %s', to_json(enqueue.task)),
                                    'open it with effects.open_task');
    end if;
    acting := effects_ledger.acting(enqueue.actor);
    if within.actor <> acting then
      perform effects_ledger.refuse('42501', format('the task %s is not of the actor %s', to_json(enqueue.task), acting),
                                    'request under a task of your own');
    end if;

    if enqueue.name is not null then
      select * into earlier from effects_ledger.request r where r.task_id = within.task_id and r.name = enqueue.name;
      if found then
        return effects_ledger.same_request(earlier, enqueue.operation, given, given_digest, acting);
      end if;
    end if;
    if within.ended_at is not null or within.revoked_at is not null or within.deadline <= moment then
      perform effects_ledger.refuse('PE108', format('task_ended: the task %s has ended', to_json(enqueue.task)),
                                    'request under a live task');
    end if;
    select * into kind from effects_ledger.operation o where o.operation = enqueue.operation
      order by not (o.protected or ledger."strict") or o.allowed_at is not null desc, o.version desc limit 1;
    if not found then
      perform effects_ledger.refuse('PE101', format('operation_unknown: no operation is named %s', to_json(enqueue.operation)),
                                    'start a worker that has it once; it registers its operations');
    end if;
    ends := least(enqueue.expires_at, moment + make_interval(secs => (kind.contract ->> 'expiresAfterMs')::numeric / 1000.0));
    if ends <= moment then
      perform effects_ledger.refuse('22023', 'expires_at is in the past', 'give a moment ahead, or none');
    elsif enqueue.not_before >= ends then
      perform effects_ledger.refuse('22023', format('not_before is not before it expires, at %s', ends),
                                    'give an earlier not_before or a later expires_at');
    end if;

    insert into effects_ledger.request (effect_id, key, operation, version, task_id, name, actor, requested_by,
      requested_at, given_digest, not_before, expires_at, priority, on_denial, trace, recovery_epoch)
    values (id, substr(encode(sha256(convert_to('pg-effects/key/1 ' || ledger.ledger_id || ' ' || id, 'UTF8')), 'hex'), 1, 32),
      kind.operation, kind.version, within.task_id, enqueue.name, acting, session_user, moment, given_digest,
      enqueue.not_before, ends, enqueue.priority, enqueue.on_denial, enqueue.trace, ledger.recovery_epoch)
    on conflict (task_id, name) where name is not null do nothing;
    if not found then
      select * into strict earlier from effects_ledger.request r where r.task_id = within.task_id and r.name = enqueue.name;
      return effects_ledger.same_request(earlier, enqueue.operation, given, given_digest, acting);
    end if;
    insert into effects_payload.input (effect_id, given) values (id, input);
    detail := jsonb_build_object('operation', kind.operation, 'version', kind.version, 'task', within.task_id,
                                 'actor', acting, 'given_digest', encode(given_digest, 'hex'));
    insert into effects_ledger.effect (effect_id, state, seq, head)
    values (id, 'requested', 1, effects_ledger.event_hash(effects_ledger.chain_start(id), id, 1, moment, 'requested',
                                                          null, 'requested', acting, null, detail));
    insert into effects_ledger.event (effect_id, seq, at, event, from_state, to_state, by_role, by_worker, detail,
      previous_hash, hash)
    select id, 1, moment, 'requested', null, 'requested', acting, null, detail, effects_ledger.chain_start(id), e.head
      from effects_ledger.effect e where e.effect_id = id;
    insert into effects_ledger.live (effect_id) values (id);
    perform effects_queue.add_job(kind.operation, json_build_object('effect_id', id),
              run_at => greatest(enqueue.not_before, now()), job_key => id::text, priority => enqueue.priority);
    return id;
  end $$;
comment on function effects.enqueue is
  'Requests an effect inside the caller''s own transaction; a worker carries it out after it commits.';

-- The earlier effect of a name, if this request is the same one; else PE104 with what differs.
create function effects_ledger.same_request(earlier effects_ledger.request, operation text, given jsonb,
                                            given_digest bytea, acting text) returns uuid language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    differs text;
  begin
    differs := case
      when earlier.operation <> operation then 'operation'
      when earlier.actor <> acting then 'actor'
      when earlier.given_digest <> given_digest then
        'input' || coalesce(effects_ledger.first_difference((select i.given::jsonb from effects_payload.input i
                              where i.effect_id = earlier.effect_id), given, ''), '') end;
    if differs is not null then
      perform effects_ledger.refuse('PE104', format('name_conflict: the name %s is another request''s; %s differs',
                                    to_json(earlier.name), differs), 'use the same request, or another name');
    end if;
    return earlier.effect_id;
  end $$;

create function effects.open_task(name text, parent text default 'default', subject text default null,
                                  actor text default null, deadline timestamptz default null, budgets json default '[]')
  returns uuid language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
  as $$
  #variable_conflict use_column
  declare
    above effects_ledger.task;
    opened effects_ledger.task;
    id constant uuid := effects_ledger.new_id();
    acting constant text := effects_ledger.acting(null);
    holder constant text := coalesce(open_task.actor, acting);
    budget record;
  begin
    select * into above from effects_ledger.task t where t.name = open_task.parent for share;
    if not found then
      perform effects_ledger.refuse('PE103', format('task_unknown: no task is named %s', to_json(open_task.parent)),
                                    'open the parent first');
    elsif above.actor <> acting then
      perform effects_ledger.refuse('42501', format('the task %s is not of the actor %s', to_json(open_task.parent), acting),
                                    'open it under a task of your own');
    elsif length(open_task.name) not between 1 and 200 or open_task.name is null then
      perform effects_ledger.refuse('22023', 'a task''s name has 1 to 200 characters', 'give such a name');
    elsif not exists (select from effects_ledger.actor a where a.actor = holder and a.revoked_at is null) then
      perform effects_ledger.refuse('42501', format('the actor %s is not registered', to_json(holder)),
                                    'name a registered actor, or leave actor out');
    end if;
    select * into opened from effects_ledger.task t where t.name = open_task.name;
    if not found then
      if above.ended_at is not null or above.revoked_at is not null or above.deadline <= clock_timestamp() then
        perform effects_ledger.refuse('PE108', format('task_ended: the task %s has ended', to_json(open_task.parent)),
                                      'open it under a live task');
      elsif open_task.deadline <= clock_timestamp() then
        perform effects_ledger.refuse('22023', 'the deadline is in the past', 'give a moment ahead, or none');
      end if;
      insert into effects_ledger.task (task_id, name, parent_id, lineage, path, subject, actor, deadline, opened_by)
      values (id, open_task.name, above.task_id, above.lineage || id, above.path || ' > ' || open_task.name,
              open_task.subject, holder, coalesce(open_task.deadline, above.deadline), acting)
      on conflict (name) do nothing returning * into opened;
      if found then
        for budget in select b.unit, b.amount from effects_ledger.read_budgets(open_task.budgets) as b loop
          insert into effects_ledger.budget (task_id, unit, limit_amount, set_by)
          values (id, budget.unit, budget.amount, acting);
        end loop;
        return id;
      end if;
      select * into strict opened from effects_ledger.task t where t.name = open_task.name;
    end if;
    if (opened.parent_id, opened.subject, opened.actor) is distinct from (above.task_id, open_task.subject, holder) then
      perform effects_ledger.refuse('PE104', format('name_conflict: the task %s has another parent, subject or actor',
                                    to_json(open_task.name)), 'use the same task, or another name');
    end if;
    return opened.task_id;
  end $$;
comment on function effects.open_task is
  'Opens a task under another, with its own deadline and budgets. The same name is the same task, left as it stands.';
