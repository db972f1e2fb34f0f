-- Access: which actors there are, who speaks for them, who may look at what: the owner's. And tasks, an application's own under
-- one of its own, and the roots of all authority, which are the owner's.
--
-- Invariants established here:
--   * an actor that was revoked is never registered again;
--   * whoever may speak no longer is met by every later admission: the actor's row is written, which admission locks;
--   * each change is recorded with who and why.

create function effects.add_actor(actor text, reason text, spoken_by text default null) returns void language plpgsql volatile
  security definer set search_path = pg_catalog, pg_temp
  as $$
  #variable_conflict use_column
  declare
    known effects_ledger.actor;
  begin
    perform effects_ledger.check_reason(add_actor.reason);
    if add_actor.actor is null or length(add_actor.actor) not between 1 and 200 then
      perform effects_ledger.refuse('22023', 'an actor''s name has 1 to 200 characters', 'give such a name: the role''s, where it is one');
    elsif add_actor.spoken_by = add_actor.actor then
      perform effects_ledger.refuse('22023', format('%s speaks for itself', add_actor.actor), 'leave spoken_by out');
    elsif add_actor.spoken_by = '' or to_regrole(quote_ident(add_actor.spoken_by)) is null and add_actor.spoken_by is not null then
      perform effects_ledger.refuse('22023', format('there is no role %s', effects_ledger.quoted(add_actor.spoken_by)), 'name the login that may speak for it');
    end if;
    insert into effects_ledger.actor (actor, registered_by) values (add_actor.actor, effects_ledger.actor_now()) on conflict do nothing;
    if found then
      perform effects_ledger.record_authority('actor added', 'actor ' || add_actor.actor, null, null, add_actor.reason);
    end if;
    select * into strict known from effects_ledger.actor a where a.actor = add_actor.actor for share;
    if known.revoked_at is not null then
      perform effects_ledger.refuse('42501', format('the actor %s is revoked', add_actor.actor), 'there is no way back: register another name');
    elsif add_actor.spoken_by is not null then
      insert into effects_ledger.speaker (actor, spoken_by, registered_by)
      values (add_actor.actor, add_actor.spoken_by, effects_ledger.actor_now()) on conflict do nothing;
      if found then
        perform effects_ledger.record_authority('speaker added', 'actor ' || add_actor.actor, null,
                                                jsonb_build_object('spoken_by', add_actor.spoken_by), add_actor.reason);
      end if;
    end if;
  end $$;
comment on function effects.add_actor is
  'Registers an actor. A role named in spoken_by may then request in its name: effects.enqueue(…, actor => …).';

create function effects.revoke_speaker(actor text, spoken_by text, reason text) returns json language plpgsql volatile
  security definer set search_path = pg_catalog, pg_temp
  as $$
  #variable_conflict use_column
  begin
    perform effects_ledger.check_reason(revoke_speaker.reason);
    update effects_ledger.actor a set revoked_at = a.revoked_at where a.actor = revoke_speaker.actor;
    delete from effects_ledger.speaker s where s.actor = revoke_speaker.actor and s.spoken_by = revoke_speaker.spoken_by;
    if not found then
      perform effects_ledger.refuse('22023', format('%s does not speak for the actor %s', coalesce(revoke_speaker.spoken_by, 'null'), effects_ledger.quoted(revoke_speaker.actor)),
                                    'audit.speakers lists who does');
    end if;
    perform effects_ledger.record_authority('speaker revoked', 'actor ' || revoke_speaker.actor,
                                            jsonb_build_object('spoken_by', revoke_speaker.spoken_by), null, revoke_speaker.reason);
    perform effects_ledger.requeue_waiting(null, null, revoke_speaker.actor);
    return effects_ledger.concerned(null, null, revoke_speaker.actor, null);
  end $$;
comment on function effects.revoke_speaker is
  'A role speaks for an actor no longer: what it asked for in its name is not admitted any more. Says what it came too late for.';

create function effects.let_observe(actor text, task text, reason text) returns void language plpgsql volatile
  security definer set search_path = pg_catalog, pg_temp
  as $$
  #variable_conflict use_column
  declare
    shown effects_ledger.task;
  begin
    perform effects_ledger.check_reason(let_observe.reason);
    select * into shown from effects_ledger.task t where t.name = let_observe.task;
    if not found then
      perform effects_ledger.refuse('PE103', format('task_unknown: no task is named %s', effects_ledger.quoted(let_observe.task)), 'name a task that exists');
    elsif coalesce(let_observe.actor, '') = '' or to_regrole(quote_ident(let_observe.actor)) is null
          and not exists (select from effects_ledger.actor a where a.actor = let_observe.actor) then
      perform effects_ledger.refuse('22023', format('there is no actor or role %s', effects_ledger.quoted(let_observe.actor)),
                                    'name the one that may look');
    end if;
    insert into effects_ledger.observer (actor, task_id, added_by)
    values (let_observe.actor, shown.task_id, effects_ledger.actor_now()) on conflict do nothing;
    if found then
      perform effects_ledger.record_authority('observer added', 'task ' || shown.name, null,
                                              jsonb_build_object('actor', let_observe.actor), let_observe.reason);
    end if;
  end $$;
comment on function effects.let_observe is 'Lets an actor observe the effects of a task and of every task under it. It may do nothing else there.';

create function effects.revoke_observer(actor text, task text, reason text) returns void language plpgsql volatile
  security definer set search_path = pg_catalog, pg_temp
  as $$
  #variable_conflict use_column
  begin
    perform effects_ledger.check_reason(revoke_observer.reason);
    delete from effects_ledger.observer o using effects_ledger.task t
      where o.task_id = t.task_id and o.actor = revoke_observer.actor and t.name = revoke_observer.task;
    if not found then
      perform effects_ledger.refuse('22023', format('%s was not let observe the task %s', coalesce(revoke_observer.actor, 'null'), effects_ledger.quoted(revoke_observer.task)),
                                    'audit.observers lists who was');
    end if;
    perform effects_ledger.record_authority('observer revoked', 'task ' || revoke_observer.task,
                                            jsonb_build_object('actor', revoke_observer.actor), null, revoke_observer.reason);
  end $$;
comment on function effects.revoke_observer is 'Ends what effects.let_observe allowed.';

create function effects.open_task(name text, parent text default 'default', subject text default null,
                                  actor text default null, deadline timestamptz default null, budgets json default '[]')
  returns uuid language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
  as $$
  #variable_conflict use_column
  declare
    above effects_ledger.task;
    opened effects_ledger.task;
    id constant uuid := effects_ledger.new_id();
    acting text;
    holder text;
    unbounded text;
    budget record;
  begin
    select * into above from effects_ledger.task t where t.name = open_task.parent for share;
    -- Under a task of its own, whoever opens delegates; elsewhere it speaks for the actor that it names, where it may.
    acting := effects_ledger.acting(case when above.actor is distinct from effects_ledger.actor_now()
                                         then effects_ledger.spoken_for(open_task.actor) end);
    holder := coalesce(open_task.actor, acting);
    if above.task_id is null then
      perform effects_ledger.refuse('PE103', format('task_unknown: no task is named %s', effects_ledger.quoted(open_task.parent)),
                                    'open the parent first');
    elsif above.actor <> acting then
      perform effects_ledger.refuse('42501', format('the task %s is not of the actor %s', effects_ledger.quoted(open_task.parent), acting),
                                    'open it under a task of your own');
    elsif length(open_task.name) not between 1 and 200 or open_task.name is null then
      perform effects_ledger.refuse('22023', 'a task''s name has 1 to 200 characters', 'give such a name');
    elsif not exists (select from effects_ledger.actor a where a.actor = holder and a.revoked_at is null) then
      perform effects_ledger.refuse('42501', format('the actor %s is not registered', effects_ledger.quoted(holder)),
                                    'name a registered actor, or leave actor out');
    end if;
    select * into opened from effects_ledger.task t where t.name = open_task.name;
    if not found then
      if above.ended_at is not null or above.revoked_at is not null or above.deadline <= clock_timestamp() then
        perform effects_ledger.refuse('PE108', format('task_ended: the task %s has ended', effects_ledger.quoted(open_task.parent)),
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
                                    effects_ledger.quoted(open_task.name)), 'use the same task, or another name');
    end if;
    -- A limit may have been set anew since; but no unit goes again, and one that is only believed to be bounded is not.
    select b.unit into unbounded from effects_ledger.read_budgets(open_task.budgets) as b
      where not exists (select from effects_ledger.budget h where h.task_id = opened.task_id and h.unit = b.unit)
      order by b.unit limit 1;
    if found then
      perform effects_ledger.refuse('PE104', format('name_conflict: the task %s was opened without a budget of %s',
                                    effects_ledger.quoted(open_task.name), unbounded), 'effects.set_budget adds one to it, or use another name');
    end if;
    return opened.task_id;
  end $$;
comment on function effects.open_task is
  'Opens a task under another, with its own deadline and budgets. The same name is the same task, left as it stands: budgets given for it again are checked, and their limits are not set again.';

create function effects.open_root_task(name text, reason text, subject text default null, actor text default null,
                                       deadline timestamptz default null, budgets json default '[]')
  returns uuid language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
  as $$
  #variable_conflict use_column
  declare
    opened effects_ledger.task;
    id constant uuid := effects_ledger.new_id();
    budget record;
  begin
    perform effects_ledger.check_reason(open_root_task.reason);
    if open_root_task.name is null or length(open_root_task.name) not between 1 and 200 then
      perform effects_ledger.refuse('22023', 'a task''s name has 1 to 200 characters', 'give such a name');
    elsif open_root_task.actor is not null
          and not exists (select from effects_ledger.actor a where a.actor = open_root_task.actor and a.revoked_at is null) then
      perform effects_ledger.refuse('42501', format('the actor %s is not registered', effects_ledger.quoted(open_root_task.actor)),
                                    'register it first, or leave actor out: then the task is every registered actor''s');
    end if;
    select * into opened from effects_ledger.task t where t.name = open_root_task.name;
    if not found then
      if open_root_task.deadline <= clock_timestamp() then
        perform effects_ledger.refuse('22023', 'the deadline is in the past', 'give a moment ahead, or none');
      end if;
      insert into effects_ledger.task (task_id, name, lineage, path, subject, actor, deadline, opened_by)
      values (id, open_root_task.name, array[id], open_root_task.name, open_root_task.subject, open_root_task.actor,
              open_root_task.deadline, effects_ledger.actor_now())
      on conflict (name) do nothing returning * into opened;
      if found then
        for budget in select b.unit, b.amount from effects_ledger.read_budgets(open_root_task.budgets) as b loop
          insert into effects_ledger.budget (task_id, unit, limit_amount, set_by)
          values (id, budget.unit, budget.amount, effects_ledger.actor_now());
        end loop;
        perform effects_ledger.record_authority('task opened', 'task ' || opened.name, null, jsonb_strip_nulls(
          jsonb_build_object('actor', opened.actor, 'subject', opened.subject, 'deadline', opened.deadline,
            'budgets', (select jsonb_object_agg(b.unit, b.limit_amount::text) from effects_ledger.budget b where b.task_id = id))),
          open_root_task.reason);
        return id;
      end if;
      select * into strict opened from effects_ledger.task t where t.name = open_root_task.name;
    end if;
    if opened.parent_id is not null
       or (opened.subject, opened.actor) is distinct from (open_root_task.subject, open_root_task.actor) then
      perform effects_ledger.refuse('PE104', format('name_conflict: the task %s is no root, or has another subject or actor',
                                      effects_ledger.quoted(open_root_task.name)), 'use the same task, or another name');
    end if;
    return opened.task_id;
  end $$;
comment on function effects.open_root_task is
  'Opens a task that stands under none; without an actor it is every registered actor''s. The same name is the same task, left as it stands.';

revoke all on all functions in schema effects, effects_ledger from public;
