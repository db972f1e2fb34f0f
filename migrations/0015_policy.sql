-- Policies, approvers and protection: what the owner decides about a class of effects.
--
-- Invariants established here:
--   * a policy is added whole and never changed, only revoked; no two live ones cover the same;
--   * protecting an operation protects every version of its name, also those that are registered later;
--   * what takes authority away updates the row that admission locks, and is recorded with who and why.

-- A policy in words that a record can keep.
create function effects_ledger.policy_words(p effects_ledger.policy) returns jsonb language sql stable
  set search_path = pg_catalog, pg_temp
  as $$
    select jsonb_strip_nulls(jsonb_build_object('operation', p.operation, 'version', p.version,
      'task', (select t.name from effects_ledger.task t where t.task_id = p.task_id), 'actor', p.actor, 'target', p.target,
      'target_match', p.target_match, 'costs', p.costs, 'admissions_max', p.admissions_max::text, 'open_max', p.open_max::text,
      'approvals_needed', p.approvals_needed, 'requester_excluded', p.requester_excluded,
      'precondition_enforced', p.precondition_enforced, 'prepared_within', p.prepared_within::text, 'expires_at', p.expires_at,
      'approvers', (select jsonb_agg(a.approver order by a.approver) from effects_ledger.policy_approver a
                     where a.policy_id = p.policy_id)))
  $$;

create function effects.add_policy(name text, operation text, version int, reason text, task text default 'default',
                                   actor text default null, target text default null, target_match text default 'exact',
                                   costs json default '[]', admissions_max bigint default null, open_max bigint default null,
                                   approvals_needed int default 0, approvers text[] default '{}',
                                   requester_excluded boolean default true, precondition_enforced boolean default false,
                                   prepared_within interval default null, expires_at timestamptz default null)
  returns uuid language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
  as $$
  #variable_conflict use_column
  declare
    kind effects_ledger.operation;
    within effects_ledger.task;
    added effects_ledger.policy;
    named constant text[] := array(select distinct a from unnest(coalesce(add_policy.approvers, '{}')) as a);
    per_unit jsonb;
  begin
    perform effects_ledger.check_reason(add_policy.reason);
    select * into kind from effects_ledger.operation o
      where o.operation = add_policy.operation and o.version = add_policy.version;
    if not found then
      perform effects_ledger.refuse('PE101', format('operation_unknown: there is no version %s of %s', add_policy.version,
                                      effects_ledger.quoted(add_policy.operation)), 'effects.operations lists them');
    end if;
    select * into within from effects_ledger.task t where t.name = add_policy.task;
    if not found then
      perform effects_ledger.refuse('PE103', format('task_unknown: no task is named %s', effects_ledger.quoted(add_policy.task)), 'name a task that exists');
    elsif add_policy.name is null or length(add_policy.name) not between 1 and 200 or add_policy.name = 'ordinary' then
      perform effects_ledger.refuse('22023', 'a policy''s name has 1 to 200 characters and is not ordinary', 'give such a name');
    elsif add_policy.target = '' or add_policy.target is not null and add_policy.target_match not in ('exact', 'prefix') then
      perform effects_ledger.refuse('22023', 'the target is met exactly or as a beginning', 'give a target, and exact or prefix');
    elsif add_policy.target is not null and add_policy.target_match = 'prefix'
          and coalesce(right(add_policy.target, 1) <> kind.contract ->> 'targetDelimiter', true) then
      perform effects_ledger.refuse('22023', format('a beginning of targets of %s ends %s', kind.operation,
                                      coalesce('with ' || (kind.contract ->> 'targetDelimiter'), 'nowhere: its contract names no targetDelimiter')),
                                    'name whole targets, or end at the delimiter, so that no neighbour is meant');
    elsif add_policy.admissions_max < 1 or add_policy.open_max < 1 then
      perform effects_ledger.refuse('22023', 'a bound is below 1', 'give a positive bound, or none');
    elsif add_policy.approvals_needed is null or add_policy.approvals_needed not between 0 and 16 then
      perform effects_ledger.refuse('22023', 'approvals_needed is not 0 to 16', 'give the number of approvers who must agree');
    elsif add_policy.approvals_needed > cardinality(named) then
      perform effects_ledger.refuse('22023', format('%s approvals are needed and %s approvers named', add_policy.approvals_needed, cardinality(named)),
                                    'name at least as many approvers');
    elsif add_policy.approvals_needed = 0 and cardinality(named) > 0 then
      perform effects_ledger.refuse('22023', 'approvers are named and no approval is needed', 'say how many approvals are needed');
    elsif exists (select from unnest(named) as a where a is null or length(a) not between 1 and 200) then
      perform effects_ledger.refuse('22023', 'an approver''s name has 1 to 200 characters', 'give such names');
    elsif add_policy.prepared_within <= interval '0' then
      perform effects_ledger.refuse('22023', 'prepared_within is not positive', 'give a positive interval, or none');
    elsif add_policy.expires_at <= clock_timestamp() then
      perform effects_ledger.refuse('22023', 'expires_at is in the past', 'give a moment ahead, or none');
    elsif add_policy.precondition_enforced and kind.contract ->> 'precondition' <> 'enforced' then
      perform effects_ledger.refuse('22023', format('the contract of %s %s has no enforced precondition', kind.operation, kind.version),
                                    'every effect under this policy would be unsupported');
    end if;
    select coalesce(jsonb_object_agg(c.unit, c.amount::text), '{}') into per_unit from effects_ledger.read_budgets(add_policy.costs) as c;
    begin
      insert into effects_ledger.policy (name, operation, version, task_id, actor, target, target_match, costs, admissions_max,
        open_max, approvals_needed, requester_excluded, precondition_enforced, prepared_within, expires_at, added_by)
      values (add_policy.name, kind.operation, kind.version, within.task_id, add_policy.actor, add_policy.target,
        case when add_policy.target is not null then add_policy.target_match end, per_unit, add_policy.admissions_max,
        add_policy.open_max, add_policy.approvals_needed, coalesce(add_policy.requester_excluded, true),
        coalesce(add_policy.precondition_enforced, false), add_policy.prepared_within, add_policy.expires_at,
        effects_ledger.actor_now())
      returning * into added;
    exception when unique_violation then
      perform effects_ledger.refuse('PE112', format('policy_exists: a policy named %s, or a live one that covers the same, is there',
                                      effects_ledger.quoted(add_policy.name)), 'audit.policies lists them; revoke the other one first');
    end;
    insert into effects_ledger.policy_approver (policy_id, approver) select added.policy_id, a from unnest(named) as a;
    perform effects_ledger.record_authority('policy added', 'policy ' || added.name, null, effects_ledger.policy_words(added), add_policy.reason);
    return added.policy_id;
  end $$;
comment on function effects.add_policy is
  'Lets a bounded class of a protected operation''s effects be admitted. costs: [{"unit": "usd_cents", "limit": "4000"}], for one effect; a unit not named may cost nothing.';

create function effects.revoke_policy(name text, reason text) returns json language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    known effects_ledger.policy;
  begin
    perform effects_ledger.check_reason(reason);
    select * into known from effects_ledger.policy p where p.name = revoke_policy.name for no key update;
    if not found or known.operation is null then
      perform effects_ledger.refuse('PE113', format('policy_unknown: no policy is named %s', effects_ledger.quoted(revoke_policy.name)), 'audit.policies lists them');
    end if;
    if known.revoked_at is null then
      update effects_ledger.policy p set revoked_at = clock_timestamp() where p.policy_id = known.policy_id;
      perform effects_ledger.record_authority('policy revoked', 'policy ' || known.name, effects_ledger.policy_words(known), null, reason);
    end if;
    perform effects_ledger.requeue_waiting(null, null, null, known.policy_id);
    return effects_ledger.concerned(null, null, null, null, known.policy_id);
  end $$;
comment on function effects.revoke_policy is 'Nothing more is admitted under the policy. Says what it came too late for.';

create function effects.protect_operation(operation text, reason text) returns json language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp
  as $$
  #variable_conflict use_column
  begin
    perform effects_ledger.check_reason(protect_operation.reason);
    lock table effects_ledger.operation in share row exclusive mode;
    if not exists (select from effects_ledger.operation o where o.operation = protect_operation.operation) then
      perform effects_ledger.refuse('PE101', format('operation_unknown: no operation is named %s', effects_ledger.quoted(protect_operation.operation)),
                                    'effects.operations lists them');
    end if;
    update effects_ledger.operation o set protected = true where o.operation = protect_operation.operation and not o.protected;
    if found then
      perform effects_ledger.record_authority('operation protected', 'operation ' || protect_operation.operation, null, null, protect_operation.reason);
      perform effects_ledger.requeue_waiting(null, protect_operation.operation, null);
    end if;
    return effects_ledger.concerned(null, protect_operation.operation, null, null);
  end $$;
comment on function effects.protect_operation is
  'From now on every effect of the operation, in every version, wants an allowed implementation, a policy, and a budget for each unit. There is no way back. Says what of it waits.';

create function effects.allow_operation(operation text, version int, reason text, implementation text default null)
  returns json language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
  as $$
  #variable_conflict use_column
  declare
    known effects_ledger.operation;
  begin
    perform effects_ledger.check_reason(allow_operation.reason);
    select * into known from effects_ledger.operation o
      where o.operation = allow_operation.operation and o.version = allow_operation.version for no key update;
    if not found then
      perform effects_ledger.refuse('PE101', format('operation_unknown: there is no version %s of %s', allow_operation.version,
                                      effects_ledger.quoted(allow_operation.operation)), 'effects.operations lists them');
    elsif known.withdrawn_at is not null then
      perform effects_ledger.refuse('22023', format('version %s of %s is withdrawn', known.version, known.operation), 'register a new version');
    elsif allow_operation.implementation <> known.implementation then
      perform effects_ledger.refuse('22023', format('the implementation registered now is %s', known.implementation),
                                    'review that one, or start the worker that runs the one you mean');
    end if;
    if known.allowed_implementation is distinct from known.implementation then
      update effects_ledger.operation o
         set allowed_implementation = known.implementation, allowed_by = effects_ledger.actor_now(), allowed_at = clock_timestamp()
       where o.operation = known.operation and o.version = known.version;
      perform effects_ledger.record_authority('operation allowed', format('operation %s %s', known.operation, known.version),
        case when known.allowed_at is not null then jsonb_build_object('implementation', known.allowed_implementation) end,
        jsonb_build_object('implementation', known.implementation, 'contract_digest', encode(known.contract_digest, 'hex'),
                           'release', known.release), allow_operation.reason);
      perform effects_ledger.requeue_waiting(null, known.operation, null);
    end if;
    return json_build_object('operation', known.operation, 'version', known.version, 'implementation', known.implementation,
                             'release', known.release, 'protected', known.protected);
  end $$;
comment on function effects.allow_operation is
  'Allows the implementation of a version that is registered now (its digest, where one is given). The one allowed before is allowed no more.';

create function effects.add_approver(approver text, public_key text, reason text) returns text language plpgsql volatile
  security definer set search_path = pg_catalog, pg_temp
  as $$
  #variable_conflict use_column
  declare
    raw bytea;
    known effects_ledger.approver;
    id text;
  begin
    perform effects_ledger.check_reason(add_approver.reason);
    if add_approver.approver is null or length(add_approver.approver) not between 1 and 200 then
      perform effects_ledger.refuse('22023', 'an approver''s name has 1 to 200 characters', 'give such a name: the role''s, where the person has one');
    elsif coalesce(add_approver.public_key, '') !~ '^[0-9a-f]{64}$' then
      perform effects_ledger.refuse('22023', 'a public key is 64 hex digits: the 32 bytes of an Ed25519 key',
                                    'openssl pkey -in key.pem -pubout -outform DER | tail -c 32 | xxd -p -c 32');
    end if;
    raw := decode(add_approver.public_key, 'hex');
    id := left(encode(sha256(raw), 'hex'), 32);
    select * into known from effects_ledger.approver k where k.key_id = id;
    if found and (known.approver <> add_approver.approver or known.revoked_at is not null) then
      perform effects_ledger.refuse('PE114', format('key_known: this key is %s''s%s', known.approver,
                                      case when known.revoked_at is not null then ', and revoked' else '' end), 'make a new key');
    elsif not found then
      insert into effects_ledger.approver (key_id, approver, public_key, added_by)
      values (id, add_approver.approver, raw, effects_ledger.actor_now());
      perform effects_ledger.record_authority('approver added', format('approver %s key %s', add_approver.approver, id), null,
                                              jsonb_build_object('public_key', add_approver.public_key), add_approver.reason);
    end if;
    return id;
  end $$;
comment on function effects.add_approver is
  'Registers an approver''s Ed25519 key, as 64 hex digits. Returns the key''s id. The name is the person''s role, where there is one.';

create function effects.revoke_approver(approver text, reason text) returns json language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp
  as $$
  #variable_conflict use_column
  declare
    keys text[];
    key effects_ledger.approver;
  begin
    perform effects_ledger.check_reason(revoke_approver.reason);
    for key in select * from effects_ledger.approver k
                where revoke_approver.approver in (k.approver, k.key_id) order by k.key_id for no key update loop
      keys := keys || key.key_id;
      if key.revoked_at is null then
        update effects_ledger.approver k set revoked_at = clock_timestamp() where k.key_id = key.key_id;
        perform effects_ledger.record_authority('approver revoked', format('approver %s key %s', key.approver, key.key_id), null, null,
                                                revoke_approver.reason);
      end if;
    end loop;
    if keys is null then
      perform effects_ledger.refuse('PE115', format('approver_unknown: no approver or key is %s', effects_ledger.quoted(revoke_approver.approver)),
                                    'audit.approvers lists them');
    end if;
    perform effects_ledger.requeue_waiting(null, null, null, null, keys);
    return effects_ledger.concerned(null, null, null, null, null, keys);
  end $$;
comment on function effects.revoke_approver is
  'Takes a key away, by its id, or all keys of an approver, by the name. What they signed counts no more. Says what it came too late for.';

create function effects.set_ledger(strict boolean, reason text, reconcile_deadline_max interval default null) returns json language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp
  as $$
  #variable_conflict use_column
  declare
    earlier effects_ledger.identity;
    longest constant interval := set_ledger.reconcile_deadline_max;
  begin
    perform effects_ledger.check_reason(set_ledger.reason);
    select * into strict earlier from effects_ledger.identity for no key update;
    if longest <= interval '0' or longest > interval '24 hours' then
      perform effects_ledger.refuse('22023', 'reconcile_deadline_max is not within 24 hours', 'give an interval up to 24 hours');
    elsif longest <> earlier.reconcile_deadline_max then
      update effects_ledger.identity i set reconcile_deadline_max = longest, written_by = pg_current_xact_id();
      perform effects_ledger.record_authority('ledger set', 'ledger ' || earlier.name,
        jsonb_build_object('reconcile_deadline_max', earlier.reconcile_deadline_max::text),
        jsonb_build_object('reconcile_deadline_max', longest::text), set_ledger.reason);
    end if;
    if set_ledger."strict" <> earlier."strict" then
      update effects_ledger.identity i set strict = set_ledger."strict", written_by = pg_current_xact_id();
      perform effects_ledger.record_authority('ledger set', 'ledger ' || earlier.name, jsonb_build_object('strict', earlier."strict"),
                                              jsonb_build_object('strict', set_ledger."strict"), set_ledger.reason);
    end if;
    return (select json_build_object('ledger', i.name, 'strict', i.strict, 'reconcile_deadline_max', i.reconcile_deadline_max::text)
              from effects_ledger.identity i);
  end $$;
comment on function effects.set_ledger is
  'Makes the ledger strict, so that every operation is protected, or no longer strict; and bounds how long a reconciliation may take.';

revoke all on all functions in schema effects, effects_ledger from public;
