-- Control: what takes authority away or holds it back, and gives it again where that is allowed.
--
-- Invariants established here:
--   * each change updates the very row that admission locks, and is recorded with who, why, before and after; so one that
--     has returned is ahead of every later admission (protocol, section 5);
--   * ending, revoking and withdrawing have no way back; a pause is not a withdrawal;
--   * a lower limit is never refused, and a unit is added to a task only before its subtree's first admission in it.

-- What a change of authority meets, read after it is written: what waits, and what is beyond recall.
create function effects_ledger.concerned(in_task uuid, of_operation text, of_actor text, of_target text,
                                         of_policy uuid default null, of_keys text[] default null) returns jsonb
  language sql volatile set search_path = pg_catalog, pg_temp set enable_hashjoin = off set enable_mergejoin = off set jit = off
  as $$
    select jsonb_build_object(
      'waiting', count(*) filter (where e.state in ('requested', 'prepared')),
      'in_flight', coalesce(jsonb_agg(e.effect_id order by e.effect_id) filter (where e.state = 'admitted'
                     and coalesce(e.unresolved_since, e.dispatch_deadline) > clock_timestamp()), '[]'),
      'unresolved', count(*) filter (where e.state = 'admitted' and coalesce(e.unresolved_since, e.dispatch_deadline) <= clock_timestamp()
                                        or e.state = 'uncertain'),
      'first_expires_at', min(r.expires_at) filter (where e.state in ('requested', 'prepared')))
      -- A transaction that keeps its snapshot takes authority away all the same, and counts what stood when it began.
      || case current_setting('transaction_isolation') when 'read committed' then '{}'
              else '{"counted_in": "the snapshot of the transaction"}'::jsonb end
      from effects_ledger.live v
      join effects_ledger.effect e using (effect_id)
      join effects_ledger.request r using (effect_id)
      join effects_ledger.task t using (task_id)
      left join effects_payload.binding b on b.effect_id = e.effect_id and b.revision = e.revision
     where (in_task is null or in_task = any (t.lineage))
       and (of_operation is null or r.operation = of_operation)
       and (of_actor is null or r.actor = of_actor)
       and (of_target is null or starts_with(convert_from(b.bytes, 'UTF8')::json ->> 'target', of_target))
       and (of_policy is null or b.policy_id = of_policy)
       and (of_keys is null or exists (select from effects_ledger.approval a
                                        where a.effect_id = e.effect_id and a.key_id = any (of_keys)))
  $$;

-- Looks at what waits again at once, so that a change is felt now and not at the next turn.
create function effects_ledger.requeue_waiting(in_task uuid, of_operation text, of_actor text, of_policy uuid default null,
                                               of_keys text[] default null) returns void
  language sql volatile set search_path = pg_catalog, pg_temp set enable_hashjoin = off set enable_mergejoin = off set jit = off
  as $$
    select effects_ledger.requeue(coalesce(array_agg(e.effect_id), '{}'))
      from effects_ledger.live v
      join effects_ledger.effect e using (effect_id)
      join effects_ledger.request r using (effect_id)
      join effects_ledger.task t using (task_id)
      left join effects_payload.binding b on b.effect_id = e.effect_id and b.revision = e.revision
     where e.state in ('requested', 'prepared') and r.not_before is null
       and (in_task is null or in_task = any (t.lineage))
       and (of_operation is null or r.operation = of_operation)
       and (of_actor is null or r.actor = of_actor)
       and (of_policy is null or b.policy_id = of_policy)
       and (of_keys is null or exists (select from effects_ledger.approval a
                                        where a.effect_id = e.effect_id and a.key_id = any (of_keys)))
  $$;

create function effects_ledger.task_named(task text) returns effects_ledger.task language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    found_task effects_ledger.task;
  begin
    select * into found_task from effects_ledger.task t where t.name = task for no key update;
    if not found then
      perform effects_ledger.refuse('PE103', format('task_unknown: no task is named %s', effects_ledger.quoted(task)), 'name a task that exists');
    end if;
    return found_task;
  end $$;

create function effects_ledger.check_reason(reason text) returns void language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    if reason is null or reason !~ '\S' or length(reason) > 500 then
      perform effects_ledger.refuse('22023', 'a reason has 1 to 500 characters', 'say why: it is what a reader will look for');
    end if;
  end $$;

create function effects.end_task(task text) returns void language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    ending constant effects_ledger.task := effects_ledger.task_named(task);
    acting constant text := effects_ledger.acting(effects_ledger.spoken_for(ending.actor));
  begin
    if ending.parent_id is null then
      perform effects_ledger.refuse('42501', format('the task %s is a root', effects_ledger.quoted(task)), 'only the owner ends a root, by revoking it');
    elsif ending.actor <> acting and ending.opened_by <> acting then
      perform effects_ledger.refuse('42501', format('the task %s is not of the actor %s', effects_ledger.quoted(task), acting), 'end a task of your own');
    elsif ending.ended_at is not null then
      return;
    end if;
    update effects_ledger.task t set ended_at = clock_timestamp() where t.task_id = ending.task_id;
    perform effects_ledger.record_authority('task ended', 'task ' || ending.name, null, null, null);
    perform effects_ledger.requeue_waiting(ending.task_id, null, null);
  end $$;
comment on function effects.end_task is 'Ends a task of the caller''s own and everything under it: nothing more is admitted there.';

create function effects.revoke_task(task text, reason text) returns json language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    revoked constant effects_ledger.task := effects_ledger.task_named(task);
  begin
    perform effects_ledger.check_reason(reason);
    update effects_ledger.task t set revoked_at = coalesce(t.revoked_at, clock_timestamp()) where t.task_id = revoked.task_id;
    if revoked.revoked_at is null then
      perform effects_ledger.record_authority('task revoked', 'task ' || revoked.name, null, null, reason);
    end if;
    perform effects_ledger.requeue_waiting(revoked.task_id, null, null);
    return effects_ledger.concerned(revoked.task_id, null, null, null);
  end $$;
comment on function effects.revoke_task is 'Takes a task''s authority away, with everything under it. Says what it came too late for.';

create function effects.revoke_actor(actor text, reason text) returns json language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    known effects_ledger.actor;
  begin
    perform effects_ledger.check_reason(reason);
    select * into known from effects_ledger.actor a where a.actor = revoke_actor.actor for no key update;
    if not found then
      perform effects_ledger.refuse('42501', format('the actor %s is not registered', effects_ledger.quoted(revoke_actor.actor)), 'name a registered actor');
    end if;
    update effects_ledger.actor a set revoked_at = coalesce(a.revoked_at, clock_timestamp()) where a.actor = revoke_actor.actor;
    if known.revoked_at is null then
      perform effects_ledger.record_authority('actor revoked', 'actor ' || known.actor, null, null, reason);
    end if;
    perform effects_ledger.requeue_waiting(null, null, known.actor);
    return effects_ledger.concerned(null, null, known.actor, null);
  end $$;
comment on function effects.revoke_actor is 'Takes an actor''s authority away, under every task. Says what it came too late for.';

create function effects.withdraw_operation(operation text, version int, reason text) returns json language plpgsql volatile
  security definer set search_path = pg_catalog, pg_temp
  as $$
  declare
    known effects_ledger.operation;
  begin
    perform effects_ledger.check_reason(reason);
    select * into known from effects_ledger.operation o
      where o.operation = withdraw_operation.operation and o.version = withdraw_operation.version for no key update;
    if not found then
      perform effects_ledger.refuse('PE101', format('operation_unknown: there is no version %s of %s',
                                      withdraw_operation.version, effects_ledger.quoted(withdraw_operation.operation)), 'effects.operations lists them');
    end if;
    update effects_ledger.operation o set withdrawn_at = coalesce(o.withdrawn_at, clock_timestamp())
      where o.operation = known.operation and o.version = known.version;
    if known.withdrawn_at is null then
      perform effects_ledger.record_authority('operation withdrawn', format('operation %s %s', known.operation, known.version), null, null, reason);
    end if;
    perform effects_ledger.requeue_waiting(null, known.operation, null);
    return effects_ledger.concerned(null, known.operation, null, null);
  end $$;
comment on function effects.withdraw_operation is 'No effect of this version is admitted any more. Says what it came too late for.';

-- Writes the row that admission locks for a scope, and returns what it names.
create function effects_ledger.touch_pausable(scope text, target text, pausing boolean) returns void language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    moment constant timestamptz := case when pausing then clock_timestamp() end;
  begin
    if scope = 'operation' then
      update effects_ledger.operation o set paused_at = moment where o.operation = target;
      if not found then
        perform effects_ledger.refuse('PE101', format('operation_unknown: no operation is named %s', effects_ledger.quoted(target)), 'effects.operations lists them');
      end if;
    elsif scope = 'task' then
      update effects_ledger.task t set paused_at = moment where t.task_id = (effects_ledger.task_named(target)).task_id;
    elsif scope in ('target', 'all') then
      update effects_ledger.identity i set pause_revision = i.pause_revision + 1, written_by = pg_current_xact_id();
    else
      perform effects_ledger.refuse('22023', 'the scope is ' || coalesce(scope, 'null'), 'give operation, task, target or all');
    end if;
  end $$;

create function effects.pause(scope text, target text, reason text, until timestamptz default null) returns json
  language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
  as $$
  #variable_conflict use_column
  declare
    earlier effects_ledger.pause;
    named constant text := case when pause.scope = 'all' then '' else pause.target end;
  begin
    perform effects_ledger.check_reason(pause.reason);
    if pause.until <= clock_timestamp() then
      perform effects_ledger.refuse('22023', 'until is in the past', 'give a moment ahead, or none');
    elsif pause.scope in ('operation', 'task', 'target') and coalesce(named, '') = '' then
      perform effects_ledger.refuse('22023', 'the scope ' || pause.scope || ' names nothing', 'everything is paused by the scope all');
    end if;
    perform effects_ledger.touch_pausable(pause.scope, named, true);
    select * into earlier from effects_ledger.pause p where p.scope = pause.scope and p.target = named;
    insert into effects_ledger.pause as p (scope, target, reason, paused_by, until)
    values (pause.scope, named, pause.reason, effects_ledger.actor_now(), pause.until)
    on conflict (scope, target) do update
      set reason = excluded.reason, paused_by = excluded.paused_by, paused_at = excluded.paused_at, until = excluded.until;
    perform effects_ledger.record_authority('paused', trim(pause.scope || ' ' || named),
      case when earlier.scope is not null then jsonb_build_object('until', earlier.until, 'reason', earlier.reason) end,
      jsonb_build_object('until', pause.until), pause.reason);
    return effects_ledger.concerned(
      (select t.task_id from effects_ledger.task t where pause.scope = 'task' and t.name = named),
      case pause.scope when 'operation' then named end, null, case pause.scope when 'target' then named end);
  end $$;
comment on function effects.pause is
  'Stops admission for an operation, a task, a beginning of targets or everything; requests are still taken. Says what stays in flight.';

create function effects.resume(scope text, target text, reason text) returns json
  language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
  as $$
  declare
    named constant text := case when resume.scope = 'all' then '' else resume.target end;
    earlier effects_ledger.pause;
    in_task uuid;
  begin
    perform effects_ledger.check_reason(resume.reason);
    perform effects_ledger.touch_pausable(resume.scope, named, false);
    delete from effects_ledger.pause p where p.scope = resume.scope and p.target = named returning * into earlier;
    if earlier.scope is null then
      perform effects_ledger.refuse('22023', format('nothing is paused as %s', trim(resume.scope || ' ' || coalesce(named, ''))),
                                    'audit.pauses lists what is');
    end if;
    perform effects_ledger.record_authority('resumed', trim(resume.scope || ' ' || named),
      jsonb_build_object('until', earlier.until, 'reason', earlier.reason, 'paused_by', earlier.paused_by), null, resume.reason);
    select t.task_id into in_task from effects_ledger.task t where resume.scope = 'task' and t.name = named;
    perform effects_ledger.requeue_waiting(in_task, case resume.scope when 'operation' then named end, null);
    return effects_ledger.concerned(in_task, case resume.scope when 'operation' then named end, null,
                                    case resume.scope when 'target' then named end);
  end $$;
comment on function effects.resume is 'Ends a pause; what waited is looked at again at once.';

create function effects.set_budget(task text, unit text, limit_amount text, reason text) returns json
  language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
  as $$
  #variable_conflict use_column
  declare
    concerned constant effects_ledger.task := effects_ledger.task_named(set_budget.task);
    wanted record;
    earlier effects_ledger.budget;
    set_now effects_ledger.budget;
  begin
    perform effects_ledger.check_reason(set_budget.reason);
    select b.unit, b.amount into wanted from effects_ledger.read_budgets(json_build_array(
      json_build_object('unit', set_budget.unit, 'limit', set_budget.limit_amount))) as b;
    select * into earlier from effects_ledger.budget b where b.task_id = concerned.task_id and b.unit = wanted.unit for no key update;
    if earlier.task_id is null and exists (select from effects_ledger.cost c
                    join effects_ledger.request r using (effect_id) join effects_ledger.task t using (task_id)
                   where c.unit = wanted.unit and concerned.task_id = any (t.lineage)) then
      perform effects_ledger.refuse('22023', format('%s was used under the task %s before', wanted.unit, effects_ledger.quoted(concerned.name)),
                                    'a unit is budgeted before its first admission; open a new task with a budget');
    end if;
    -- The task's own row too: an admission that saw no budget here locks that row, and must not commit after us.
    update effects_ledger.task t set ended_at = t.ended_at where t.task_id = concerned.task_id;
    insert into effects_ledger.budget as b (task_id, unit, limit_amount, set_by)
    values (concerned.task_id, wanted.unit, wanted.amount, effects_ledger.actor_now())
    on conflict (task_id, unit) do update
      set limit_amount = excluded.limit_amount, set_by = excluded.set_by, set_at = excluded.set_at, suspended_at = null
    returning * into set_now;
    perform effects_ledger.record_authority('budget set', format('budget %s of task %s', wanted.unit, concerned.name),
      case when earlier.task_id is not null then jsonb_build_object('limit', earlier.limit_amount::text) end,
      jsonb_build_object('limit', set_now.limit_amount::text), set_budget.reason);
    perform effects_ledger.requeue_waiting(concerned.task_id, null, null);
    return json_build_object('task', concerned.name, 'unit', set_now.unit, 'limit', set_now.limit_amount::text,
      'reserved', set_now.reserved::text, 'spent', set_now.spent::text, 'overrun', set_now.overrun::text,
      'left', (set_now.limit_amount::numeric - set_now.reserved - set_now.spent - set_now.overrun)::text);
  end $$;
comment on function effects.set_budget is 'Sets a task''s limit in a unit, as digits. A lower limit is never refused; what is reserved stays.';
