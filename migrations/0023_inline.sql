-- Inline effects: what a host runs itself, without a registered operation (protocol, section 8; ADR 0200).
--
-- Invariants established here:
--   * an intent is requested, prepared and admitted in one transaction or not at all, and it costs nothing;
--   * one actor's run and name are one effect, for ever;
--   * only its own actor reports about it here, and nobody concludes while another process may still run it.

-- Whose inline effects are meant: those of the role in force, or of the actor that it names and speaks for.
create function effects_ledger.inline_actor(named text) returns text language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    speaking constant text := effects_ledger.actor_now();
  begin
    if named <> speaking and effects_ledger.spoken_for(named) is null then
      perform effects_ledger.refuse('42501', format('%s does not speak for the actor %s', speaking, effects_ledger.quoted(named)),
                                    'leave actor out, or have the owner let it speak: pg-effects actor add');
    end if;
    return coalesce(named, speaking);
  end $$;

-- The same, and which database this is: what one process shares its runs by.
create function effects_ledger.inline_caller(named text, out actor text, out place text) language plpgsql volatile
  security definer set search_path = pg_catalog, pg_temp
  as $$
  begin
    if pg_is_in_recovery() then
      perform effects_ledger.refuse('55000', 'ledger_standby: this server is a standby', 'connect to the primary');
    end if;
    actor := effects_ledger.inline_actor(named);
    place := effects_ledger.place_now();
  end $$;

-- Refuses what is not an inline effect of the caller's own.
create function effects_ledger.check_inline(about uuid) returns void language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    if not exists (select from effects_ledger.request r
                    where r.effect_id = about and r.run is not null
                      and (r.actor = effects_ledger.actor_now() or effects_ledger.spoken_for(r.actor) is not null)) then
      perform effects_ledger.refuse('PE109', format('effect_unknown: there is no inline effect %s of this actor''s', about),
                                    'name one of its own');
    end if;
  end $$;

-- Where an inline effect stands, as its host needs it. `still_running_ms`: so long its own process may still run it.
create function effects_ledger.inline_standing(about uuid) returns jsonb language sql volatile
  set search_path = pg_catalog, pg_temp
  as $$
    select jsonb_build_object('effect_id', e.effect_id, 'key', r.key, 'state', e.state, 'via', o.via,
             'proof', case when o.outcome = 'accepted' then convert_from(v.bytes, 'UTF8') end,
             'still_running_ms', case when e.state = 'admitted' and e.unresolved_since is null
                                       and e.dispatch_deadline > clock_timestamp()
                                      then ceil(extract(epoch from e.dispatch_deadline - clock_timestamp()) * 1000) end,
             'former', effects_ledger.is_former(e.effect_id))
      from effects_ledger.effect e
      join effects_ledger.request r using (effect_id)
      left join effects_ledger.outcome o using (effect_id)
      left join effects_payload.evidence v on v.evidence_id = o.evidence_id
     where e.effect_id = about
  $$;

-- The effect of a run and name, or null.
create function effects_ledger.find_inline(of_run text, of_name text, actor text) returns jsonb language plpgsql volatile
  security definer set search_path = pg_catalog, pg_temp
  as $$
  declare
    acting constant text := effects_ledger.inline_actor(actor);
  begin
    return (select effects_ledger.inline_standing(r.effect_id) from effects_ledger.request r
             where r.actor = acting and r.run = of_run and r.name = of_name);
  end $$;

-- Registers the operation `inline`, at its first use. No worker has it, and nobody can be allowed to.
create function effects_ledger.register_inline() returns void language sql volatile
  set search_path = pg_catalog, pg_temp
  as $$
    insert into effects_ledger.operation (operation, version, contract, contract_digest, input_schema, implementation, release,
                                          registered_by)
    select 'inline', 1, c.contract::jsonb, sha256(convert_to(c.contract, 'UTF8')),
           '{"additionalProperties":false,"properties":{"name":{"type":"string"},"run":{"type":"string"}},"required":["run","name"],"type":"object"}',
           'inline', 'inline', effects_ledger.actor_now()
      from (values ('{"absence":null,"accepts":"its host''s own code returned a proof","bindingBytesMax":65536,'
                    '"expiresAfterMs":86400000,"failures":{},"fence":null,"idempotency":null,"lanes":false,'
                    '"precondition":"none","preparedWithinMs":null,"proofBytesMax":65536,"secrets":[]}')) as c(contract)
    on conflict (operation, version) do nothing
  $$;

-- Requests an inline effect, for the transaction that also admits it. Returns what is bound, or null where the run has an
-- effect of this name by now.
create function effects_ledger.request_inline(of_run text, of_name text, task text, actor text, invocation uuid) returns jsonb
  language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
  as $$
  #variable_conflict use_column
  declare
    acting constant text := effects_ledger.acting(request_inline.actor);
    moment constant timestamptz := clock_timestamp();
    given constant jsonb := jsonb_build_object('run', of_run, 'name', of_name);
    ledger effects_ledger.identity;
    within effects_ledger.task;
    asked effects_ledger.request;
    detail jsonb;
    first_hash bytea;
  begin
    if coalesce(length(of_run) not between 1 and 200 or length(of_name) not between 1 and 200, true) then
      perform effects_ledger.refuse('22023', 'a run and a name have 1 to 200 characters each', 'give shorter ones');
    end if;
    select * into strict ledger from effects_ledger.identity;
    select * into within from effects_ledger.task t where t.name = request_inline.task;
    if not found then
      perform effects_ledger.refuse('PE103', format('task_unknown: no task is named %s', effects_ledger.quoted(request_inline.task)),
                                    'open it with effects.open_task');
    elsif within.actor <> acting then
      perform effects_ledger.refuse('42501', format('the task %s is not of the actor %s', effects_ledger.quoted(request_inline.task), acting),
                                    'request under a task of your own');
    end if;
    perform effects_ledger.check_invocation(request_inline.invocation, acting);
    perform effects_ledger.register_inline();
    asked.effect_id := effects_ledger.new_id();
    insert into effects_ledger.request (effect_id, key, operation, version, task_id, name, actor, requested_by, spoken_by,
      requested_at, given_digest, expires_at, priority, on_denial, recovery_epoch, run, invocation)
    values (asked.effect_id,
      substr(encode(sha256(convert_to('pg-effects/key/1 ' || ledger.ledger_id || ' ' || asked.effect_id, 'UTF8')), 'hex'), 1, 32),
      'inline', 1, within.task_id, of_name, acting, session_user, nullif(effects_ledger.actor_now(), acting), moment,
      sha256(convert_to(given::text, 'UTF8')), moment + interval '24 hours', 0, 'decline', ledger.recovery_epoch, of_run,
      request_inline.invocation)
    on conflict (actor, run, name) where run is not null do nothing
    returning * into asked;
    if asked.key is null then
      return null;
    end if;
    detail := jsonb_build_object('operation', 'inline', 'version', 1, 'task', within.task_id, 'actor', acting,
                                 'given_digest', encode(asked.given_digest, 'hex'));
    first_hash := effects_ledger.event_hash(effects_ledger.chain_start(asked.effect_id), asked.effect_id, 1, moment, 'requested',
                                            null, 'requested', acting, null, detail);
    insert into effects_payload.input (effect_id, given) values (asked.effect_id, given::text::json);
    insert into effects_ledger.effect (effect_id, state, seq, head) values (asked.effect_id, 'requested', 1, first_hash);
    insert into effects_ledger.event (effect_id, seq, at, event, from_state, to_state, by_role, by_worker, detail, previous_hash, hash)
    values (asked.effect_id, 1, moment, 'requested', null, 'requested', acting, null, detail,
            effects_ledger.chain_start(asked.effect_id), first_hash);
    insert into effects_ledger.live (effect_id) values (asked.effect_id);
    return jsonb_build_object('effect_id', asked.effect_id, 'key', asked.key, 'actor', acting, 'task_id', within.task_id,
      'subject', within.subject, 'ledger_id', ledger.ledger_id, 'expires_at_ms', floor(extract(epoch from asked.expires_at) * 1000),
      'policy', (select jsonb_build_object('policy_id', p.policy_id, 'name', p.name, 'revision', p.revision)
                   from effects_ledger.policy p where p.name = 'ordinary'));
  end $$;

-- Stores its binding, and locks and returns the facts of its admission.
create function effects_ledger.bind_inline(item jsonb, worker text, remembered uuid) returns jsonb language plpgsql volatile
  security definer set search_path = pg_catalog, pg_temp
  as $$
  declare
    about constant uuid := (item ->> 'effect_id')::uuid;
  begin
    perform effects_ledger.check_inline(about);
    -- Whatever its host says, it costs nothing, holds no lane, and is of the ordinary policy.
    perform effects_ledger.record_prepared(jsonb_build_array(item || jsonb_build_object('revision', 1, 'rebound', false, 'lane', null,
      'cost', '{}'::jsonb, 'policy_id', (select p.policy_id from effects_ledger.policy p where p.name = 'ordinary'))), worker);
    return effects_ledger.lock_admission(array[about], remembered);
  end $$;

-- Writes its permit and intent, after the decision.
create function effects_ledger.admit_inline(item jsonb, worker text) returns void language plpgsql volatile
  security definer set search_path = pg_catalog, pg_temp
  as $$
  declare
    asked effects_ledger.request;
  begin
    perform effects_ledger.check_inline((item ->> 'effect_id')::uuid);
    select * into strict asked from effects_ledger.request r where r.effect_id = (item ->> 'effect_id')::uuid;
    if (select i."strict" from effects_ledger.identity i)
       or (select o.protected from effects_ledger.operation o where (o.operation, o.version) = (asked.operation, asked.version)) then
      perform effects_ledger.refuse('42501', 'inline effects are refused here', 'define an operation, and have its owner allow it');
    end if;
    perform effects_ledger.record_admitted(jsonb_build_array(item || jsonb_build_object('issued_under', 'inline', 'cost', '{}'::jsonb,
      'charges', '[]'::jsonb, 'policy_id', null, 'lane', null, 'approvals', '[]'::jsonb, 'cleanup', false)), worker);
    perform effects_ledger.note_event(asked.effect_id, 'intent', jsonb_build_object('run', asked.run, 'name', asked.name));
  end $$;

create function effects_ledger.check_intent() returns trigger language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    if not exists (select from effects_ledger.effect e where e.effect_id = new.effect_id and e.admitted_at is not null) then
      raise exception 'the inline effect % was requested and not admitted', new.effect_id
        using errcode = '23514', constraint = 'an inline effect is admitted as it is requested';
    end if;
    return null;
  end $$;
create constraint trigger "an inline effect is admitted as it is requested" after insert on effects_ledger.request
  deferrable initially deferred for each row when (new.run is not null) execute function effects_ledger.check_intent();

-- What became of an intent whose COMMIT was not confirmed.
create function effects_ledger.inline_fate(transaction_id text, about uuid, hash text) returns jsonb language plpgsql volatile
  security definer set search_path = pg_catalog, pg_temp
  as $$
  begin
    return effects_ledger.admission_fate(transaction_id, array[about], array[hash]) || '{"units": {}}';
  end $$;

-- Records what a run returned (by its token), or what a reconcile found; and says where the effect stands now: what was
-- recorded first.
create function effects_ledger.record_inline(item jsonb, worker text) returns jsonb language plpgsql volatile
  security definer set search_path = pg_catalog, pg_temp
  as $$
  declare
    about constant uuid := (item ->> 'effect_id')::uuid;
    via constant text := item ->> 'via';
    outcome constant text := item ->> 'outcome';
    standing effects_ledger.effect;
  begin
    perform effects_ledger.check_inline(about);
    if (via, outcome) not in (('run', 'accepted'), ('run', 'no_effect'), ('reconcile', 'accepted'), ('reconcile', 'uncertain')) then
      perform effects_ledger.refuse('22023', format('%s via %s is no report of an inline effect', outcome, via), 'report what happened');
    end if;
    select * into strict standing from effects_ledger.effect e where e.effect_id = about for no key update;
    if effects_ledger.is_former(about) then
      perform effects_ledger.refuse('55000', format('effect %s is of the ledger that this one was copied from', about), 'it is for reading only');
    elsif via = 'reconcile' and standing.state = 'admitted' and standing.unresolved_since is null
          and standing.dispatch_deadline > clock_timestamp() then
      perform effects_ledger.refuse('55000', format('effect %s may still run in another process', about),
                                    format('ask again after %s', standing.dispatch_deadline));
    end if;
    perform effects_ledger.record_outcomes(jsonb_build_array(item || jsonb_build_object('resolution', null, 'reference', null,
      'source', null, 'reason', null, 'settlements', '[]'::jsonb,
      'standing', case outcome when 'accepted' then 'settled' when 'no_effect' then 'released' end)), worker);
    return effects_ledger.inline_standing(about);
  end $$;

-- Appends that its run ended without an answer: its process has reported, and the next call asks.
create function effects_ledger.note_inline(item jsonb, worker text) returns void language plpgsql volatile
  security definer set search_path = pg_catalog, pg_temp
  as $$
  begin
    perform effects_ledger.check_inline((item ->> 'effect_id')::uuid);
    perform effects_ledger.record_unresolved(jsonb_build_array(item || '{"event": "unresolved", "ended": true}'), worker);
  end $$;

-- What to do about a denial, in the words that effects.observe has for one that waits.
create function effects_ledger.denial_hint(denied text) returns text language sql stable security definer
  set search_path = pg_catalog, pg_temp
  as $$ select d.hint from effects_ledger.denial d where d.code = denied $$;

revoke all on all functions in schema effects, effects_ledger from public;
