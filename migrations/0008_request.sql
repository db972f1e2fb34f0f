-- What applications call: request an effect inside their own transaction, open tasks, observe, ask for reconciliation.
--
-- Invariants established here:
--   * an input is one that JSON carries faithfully: no repeated key, no number a double would change, no broken string;
--   * a name asks for the same effect or is refused with the path that differs;
--   * a parameter whose part is not built raises 0A000 and is never ignored.

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
  (104, 'preparation_failed', true, 'preparation', 'its adapter could not read what it needs; it is tried again');
call effects_ledger.make_history('effects_ledger.denial');

-- Raises an error as this API words it: a code of class PE (or a standard one), what happened, what to do.
create function effects_ledger.refuse(code text, message text, hint text) returns void language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    raise exception using errcode = code, message = message, hint = hint;
  end $$;

-- The value with every number as a double holds it; refuses, with the path, what JSON cannot carry faithfully.
create function effects_ledger.faithful_value(given json, path text, depth int) returns jsonb language plpgsql stable
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    kind constant text := json_typeof(given);
    shown constant text := case when path = '' then 'the input' else path end;
    literal text;
    repeated text;
    number numeric;
  begin
    if depth > 64 then
      perform effects_ledger.refuse('PE102', 'input_unfaithful: ' || left(shown, 200) || ' is nested deeper than 64', 'flatten the input');
    end if;
    if kind = 'object' then
      select e.key into repeated from json_each(given) as e group by e.key having count(*) > 1 limit 1;
      if found then
        perform effects_ledger.refuse('PE102', format('input_unfaithful: %s repeats the key %s', shown, to_json(repeated)),
                                      'give each key once');
      end if;
      return coalesce((select jsonb_object_agg(e.key, effects_ledger.faithful_value(e.value,
               path || '/' || replace(replace(e.key, '~', '~0'), '/', '~1'), depth + 1)) from json_each(given) as e), '{}');
    elsif kind = 'array' then
      return coalesce((select jsonb_agg(effects_ledger.faithful_value(e.value, path || '/' || (e.place - 1), depth + 1)
                                        order by e.place)
                         from json_array_elements(given) with ordinality as e(value, place)), '[]');
    elsif kind = 'number' then
      literal := given #>> '{}';
      if literal ~ '[eE][+-]?0*[1-9][0-9]{3,}$' or length(literal) > 400 then
        perform effects_ledger.refuse('PE102', 'input_unfaithful: ' || shown || ' is a number no double holds', 'write it as a string');
      end if;
      number := literal::numeric;
      if abs(number) > 9007199254740991 then
        perform effects_ledger.refuse('PE102', 'input_unfaithful: ' || shown || ' is beyond 2^53 - 1', 'write it as a string');
      elsif number <> 0 and abs(number) < 2.3e-308 then
        perform effects_ledger.refuse('PE102', 'input_unfaithful: ' || shown || ' is a number no double holds', 'write it as a string');
      end if;
      return to_jsonb(case when number = 0 then 0 else number::float8::text::numeric end);
    end if;
    return given::jsonb;
  end $$;

-- Where a string or key of a value holds U+E000, the mark that `faithful` puts in for what cannot be stored.
create function effects_ledger.marked_path(given jsonb, path text) returns text language plpgsql stable
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    mark constant text := chr(57344);
    entry record;
    found_path text;
  begin
    if jsonb_typeof(given) = 'string' then
      return case when strpos(given #>> '{}', mark) > 0 then case when path = '' then 'the input' else path end end;
    elsif jsonb_typeof(given) = 'object' then
      for entry in select e.key, e.value, path || '/' || replace(replace(e.key, '~', '~0'), '/', '~1') as place
                     from jsonb_each(given) as e order by e.key loop
        found_path := case when strpos(entry.key, mark) > 0 then 'a key of ' || coalesce(nullif(path, ''), 'the input')
                           else effects_ledger.marked_path(entry.value, entry.place) end;
        exit when found_path is not null;
      end loop;
    elsif jsonb_typeof(given) = 'array' then
      for entry in select e.value, e.place from jsonb_array_elements(given) with ordinality as e(value, place) loop
        found_path := effects_ledger.marked_path(entry.value, path || '/' || (entry.place - 1));
        exit when found_path is not null;
      end loop;
    end if;
    return found_path;
  end $$;

create function effects_ledger.faithful(given json) returns jsonb language plpgsql stable
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    if given is null then
      perform effects_ledger.refuse('PE102', 'input_unfaithful: the input is null', 'give a JSON value');
    elsif octet_length(given::text) > 65536 then
      perform effects_ledger.refuse('PE102', format('input_unfaithful: the input has %s bytes, at most 65536 are taken',
                                    octet_length(given::text)), 'keep large content elsewhere and give its reference');
    end if;
    return effects_ledger.faithful_value(given, '', 1);
  exception
    when untranslatable_character or invalid_text_representation then
      -- json_each resolves the escapes of a whole object at once, so the place is looked for in a copy: pairs that are
      -- whole become a letter, what is left of U+0000 and surrogates becomes a mark.
      perform effects_ledger.refuse('PE102', format('input_unfaithful: %s holds U+0000 or half a surrogate pair',
        effects_ledger.marked_path(regexp_replace(regexp_replace(given::text,
          '(?<!\\)((?:\\\\)*)\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}', '\1x', 'g'),
          '(?<!\\)((?:\\\\)*)\\u(?:0000|[dD][89a-fA-F][0-9a-fA-F]{2})', '\1\\ue000', 'g')::jsonb, '')), 'remove it');
      return null;
  end $$;

-- The first path at which two values differ, as a JSON pointer.
create function effects_ledger.first_difference(a jsonb, b jsonb, path text) returns text language plpgsql stable
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    place text;
  begin
    if a = b then
      return null;
    elsif jsonb_typeof(a) = 'object' and jsonb_typeof(b) = 'object' then
      select min(k.key) into place from (select jsonb_object_keys(a) union select jsonb_object_keys(b)) as k(key)
        where a -> k.key is distinct from b -> k.key;
      path := path || '/' || replace(replace(place, '~', '~0'), '/', '~1');
      return coalesce(effects_ledger.first_difference(a -> place, b -> place, path), path);
    end if;
    return path;
  end $$;

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
      order by o.version desc limit 1;
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

-- Budgets as an application gives them: [{"unit": "usd_cents", "limit": "10000"}], limits as integers or digits.
create function effects_ledger.read_budgets(budgets json) returns table (unit text, amount bigint) language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  #variable_conflict use_column
  declare
    entry record;
    named text[] := '{}';
  begin
    if budgets is null or json_typeof(budgets) <> 'array' then
      perform effects_ledger.refuse('22023', 'budgets is not an array', 'give [{"unit": "usd_cents", "limit": "10000"}]');
    end if;
    for entry in select e.value, json_typeof(e.value -> 'limit') as kind, e.value ->> 'limit' as digits,
                        e.value ->> 'unit' as named
                   from json_array_elements(budgets) as e(value)
    loop
      if entry.named is null or entry.named !~ '^[a-z][a-z0-9_]{0,31}$' then
        perform effects_ledger.refuse('22023', format('the unit %s is refused', coalesce(to_json(entry.named)::text, 'null')),
                                      'a unit is a lower-case word of at most 32 characters');
      elsif coalesce(entry.kind not in ('number', 'string') or entry.digits !~ '^[0-9]{1,19}$'
                     or entry.digits::numeric > case entry.kind when 'number' then 9007199254740991 else 9223372036854775807 end,
                     true) then
        perform effects_ledger.refuse('22023', format('the limit of %s is refused: %s', entry.named,
                                        coalesce(entry.value -> 'limit', 'null')::text),
                                      'a limit is an integer from 0, beyond 2^53 - 1 as digits in a string');
      end if;
      if entry.named = any (named) then
        perform effects_ledger.refuse('22023', format('the unit %s is given twice', entry.named), 'give each unit one limit');
      end if;
      named := named || entry.named;
      unit := entry.named;
      amount := entry.digits::bigint;
      return next;
    end loop;
  end $$;

-- Where an effect stands, as its requester sees it: one row an effect.
create view effects_ledger.standing as
  select e.effect_id, r.name, r.operation, r.version, t.name as task, e.state,
         case e.state when 'admitted' then coalesce(e.unresolved_since, e.dispatch_deadline) <= clock_timestamp()
                      when 'uncertain' then z.effect_id is null else false end as unresolved,
         case when e.state = 'admitted' and coalesce(e.unresolved_since, e.dispatch_deadline) <= clock_timestamp()
                or e.state = 'uncertain' and z.effect_id is null
              then coalesce(e.unresolved_since, e.dispatch_deadline) end as unresolved_since,
         e.waiting_for, e.declined_reason as reason, e.denial_code as code, d.hint,
         case when o.outcome = 'accepted' then convert_from(v.bytes, 'UTF8')::json end as proof,
         case when o.outcome <> 'accepted' then convert_from(v.bytes, 'UTF8')::json end as evidence,
         o.via,
         (select coalesce(json_object_agg(c.unit, (coalesce(c.settled, c.reserved)::numeric + c.overrun)::text order by c.unit), '{}')
            from effects_ledger.cost c where c.effect_id = e.effect_id) as cost,
         case when z.effect_id is not null
              then json_build_object('kind', z.kind, 'says', z.says, 'by', z.by_role, 'at', z.at) end as resolution,
         e.reference, e.seq, r.actor, t.actor as task_actor
    from effects_ledger.effect e
    join effects_ledger.request r using (effect_id)
    join effects_ledger.task t using (task_id)
    left join effects_ledger.denial d on d.code = e.denial_code
    left join effects_ledger.outcome o using (effect_id)
    left join effects_payload.evidence v on v.evidence_id = o.evidence_id
    left join effects_ledger.resolution z on z.effect_id = e.effect_id;

create function effects.observe(effect_id uuid)
  returns table (effect_id uuid, name text, operation text, version int, task text, state text, unresolved boolean,
                 unresolved_since timestamptz, waiting_for text, reason text, code text, hint text, proof json,
                 evidence json, via text, cost json, resolution json, reference text, seq int)
  language sql stable security definer set search_path = pg_catalog, pg_temp
  as $$
    select s.effect_id, s.name, s.operation, s.version, s.task, s.state, s.unresolved, s.unresolved_since, s.waiting_for,
           s.reason, s.code, s.hint, s.proof, s.evidence, s.via, s.cost, s.resolution, s.reference, s.seq
      from effects_ledger.standing s
     where s.effect_id = $1 and effects_ledger.actor_now() in (s.actor, s.task_actor)
  $$;
comment on function effects.observe is 'Where an effect of the caller''s own stands: one row, or none.';

create view effects.operations as
  select o.operation, o.version, o.input_schema as input, o.contract, o.implementation, o.release, o.protected,
         o.registered_at, o.withdrawn_at
    from effects_ledger.operation o;
comment on view effects.operations is 'Every registered operation with its input as JSON Schema, for other languages.';

create function effects.request_reconciliation(deadline timestamptz, scope text default 'effect',
    effect_id uuid default null, task text default null, operation text default null, since timestamptz default null,
    older_than interval default null, allow_fence boolean default false, allow_resubmit boolean default false,
    include_uncertain boolean default false, confirm_count int default null)
  returns uuid language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
  as $$
  #variable_conflict use_column
  declare
    asked effects_ledger.reconciliation;
    standing effects_ledger.standing;
    in_scope int;
  begin
    if allow_resubmit then perform effects_ledger.refuse('0A000', 'allow_resubmit is not built yet', 'leave it out'); end if;
    if include_uncertain then perform effects_ledger.refuse('0A000', 'include_uncertain is not built yet', 'leave it out'); end if;
    if request_reconciliation.scope is null or request_reconciliation.scope not in ('effect', 'task', 'operation', 'all') then
      perform effects_ledger.refuse('22023', 'the scope is ' || coalesce(request_reconciliation.scope, 'null'),
                                    'give effect, task, operation or all');
    elsif num_nonnulls(request_reconciliation.effect_id, request_reconciliation.task, request_reconciliation.operation)
          <> (case request_reconciliation.scope when 'all' then 0 else 1 end)
       or (request_reconciliation.scope = 'effect') <> (request_reconciliation.effect_id is not null)
       or (request_reconciliation.scope = 'task') <> (request_reconciliation.task is not null) then
      perform effects_ledger.refuse('22023', 'the scope ' || request_reconciliation.scope || ' and what names it differ',
                                    'name exactly what the scope says');
    elsif request_reconciliation.deadline is null or request_reconciliation.deadline <= clock_timestamp()
          or request_reconciliation.deadline > clock_timestamp() + interval '24 hours' then
      perform effects_ledger.refuse('22023', 'the deadline is not within the next 24 hours', 'give such a moment');
    elsif request_reconciliation.scope = 'task'
          and not exists (select from effects_ledger.task t where t.name = request_reconciliation.task) then
      perform effects_ledger.refuse('PE103', format('task_unknown: no task is named %s', to_json(request_reconciliation.task)),
                                    'name a task that exists');
    elsif request_reconciliation.scope = 'operation'
          and not exists (select from effects_ledger.operation o where o.operation = request_reconciliation.operation) then
      perform effects_ledger.refuse('PE101', format('operation_unknown: no operation is named %s', to_json(request_reconciliation.operation)),
                                    'name an operation that is registered');
    elsif request_reconciliation.scope = 'effect' then
      select * into standing from effects_ledger.standing s where s.effect_id = request_reconciliation.effect_id;
      if not found then
        perform effects_ledger.refuse('PE109', format('effect_unknown: there is no effect %s', request_reconciliation.effect_id),
                                      'name an effect of this ledger');
      elsif standing.state <> 'admitted' or not standing.unresolved then
        perform effects_ledger.refuse('PE110', format('not_unresolved: effect %s is %s%s', standing.effect_id, standing.state,
                                        case standing.state when 'admitted' then ' and may still be being dispatched' else '' end),
                                      'only what is admitted and unresolved is asked about');
      end if;
    end if;

    insert into effects_ledger.reconciliation (requested_by, scope, scope_name, allow_fence, deadline)
    values (effects_ledger.actor_now(), request_reconciliation.scope, coalesce(request_reconciliation.effect_id::text,
            request_reconciliation.task, request_reconciliation.operation), request_reconciliation.allow_fence,
            request_reconciliation.deadline)
    returning * into asked;
    insert into effects_ledger.reconciliation_effect (reconciliation_id, effect_id, operation)
    select asked.reconciliation_id, e.effect_id, r.operation
      from effects_ledger.live v
      join effects_ledger.effect e using (effect_id)
      join effects_ledger.request r using (effect_id)
      join effects_ledger.task t using (task_id)
     where e.state = 'admitted' and coalesce(e.unresolved_since, e.dispatch_deadline) <= asked.requested_at
       and (request_reconciliation.effect_id is null or e.effect_id = request_reconciliation.effect_id)
       and (request_reconciliation.operation is null or r.operation = request_reconciliation.operation)
       and (request_reconciliation.task is null or exists (select from effects_ledger.task a
              where a.name = request_reconciliation.task and a.task_id = any (t.lineage)))
       and (request_reconciliation.since is null
            or coalesce(e.unresolved_since, e.dispatch_deadline) >= request_reconciliation.since)
       and (request_reconciliation.older_than is null
            or coalesce(e.unresolved_since, e.dispatch_deadline) <= asked.requested_at - request_reconciliation.older_than);
    get diagnostics in_scope = row_count;
    if asked.allow_fence and in_scope > 1 and confirm_count is distinct from in_scope then
      perform effects_ledger.refuse('PE111', format('count_unconfirmed: %s effects would be fenced', in_scope),
                                    format('say confirm_count => %s if that is meant', in_scope));
    end if;
    perform effects_queue.add_job('reconcile:' || x.operation,
              json_build_object('reconciliation_id', asked.reconciliation_id, 'operation', x.operation), max_attempts => 1,
              priority => -1)
       from (select distinct x.operation from effects_ledger.reconciliation_effect x
              where x.reconciliation_id = asked.reconciliation_id) as x;
    return asked.reconciliation_id;
  end $$;
comment on function effects.request_reconciliation is
  'Asks the recipients about what is unresolved, once, until a deadline that nobody can extend.';
