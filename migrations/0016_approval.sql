-- Approvals: what a signer signs, and what is kept of it. A signer needs no login; a statement is detached.
--
-- Invariants established here:
--   * an approval is of a binding that stands and waits, by a key that is registered and a person whom the policy names;
--   * its signature is checked by whoever admits, for Postgres knows no Ed25519; what does not verify never counts;
--   * a refusal declines the effect, on the row that admission locks.

-- The statement about an effect's present binding: a line that says what it is, and canonical JSON (RFC 8785).
create function effects.approval_statement(effect_id uuid) returns bytea language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp
  as $$
  #variable_conflict use_column
  declare
    bound record;
  begin
    select e.state, r.operation, r.version, b.digest, b.cost, b.expires_at, i.ledger_id, i.recovery_epoch, p.approvals_needed, p.name as policy
      into bound
      from effects_ledger.effect e
      join effects_ledger.request r using (effect_id)
      cross join effects_ledger.identity i
      left join effects_payload.binding b on b.effect_id = e.effect_id and b.revision = e.revision
      left join effects_ledger.policy p on p.policy_id = b.policy_id
     where e.effect_id = approval_statement.effect_id;
    perform effects_ledger.check_awaits_approval(approval_statement.effect_id, bound.state, bound.policy, bound.approvals_needed);
    return convert_to(format(
      E'pg-effects/approval/1\n{"digest":"%s","effect":"%s","epoch":"%s","expires_at_ms":%s,"ledger":"%s","maximum_cost":{%s},"operation":"%s","stated_at_ms":%s,"version":%s}',
      encode(bound.digest, 'hex'), approval_statement.effect_id, bound.recovery_epoch, floor(extract(epoch from bound.expires_at) * 1000),
      bound.ledger_id, (select coalesce(string_agg(format('"%s":"%s"', c.key, c.value), ',' order by c.key collate "C"), '')
                          from jsonb_each_text(bound.cost) as c),
      bound.operation, floor(extract(epoch from clock_timestamp()) * 1000), bound.version), 'UTF8');
  end $$;
comment on function effects.approval_statement is
  'The bytes that an approver signs (Ed25519) to approve exactly what is bound now, up to its maximum cost and until it expires.';

create function effects_ledger.check_awaits_approval(effect_id uuid, state text, policy text, approvals_needed int) returns void
  language plpgsql set search_path = pg_catalog, pg_temp
  as $$
  begin
    if state is null then
      perform effects_ledger.refuse('PE109', format('effect_unknown: there is no effect %s', effect_id), 'audit.effects lists them');
    elsif state <> 'prepared' then
      perform effects_ledger.refuse('PE116', format('approval_unwanted: effect %s is %s', effect_id, state),
                                    case state when 'requested' then 'wait until a worker has prepared it' else 'there is nothing to approve' end);
    elsif coalesce(approvals_needed, 0) = 0 then
      perform effects_ledger.refuse('PE116', format('approval_unwanted: effect %s waits under the policy %s, which wants no approval',
                                      effect_id, coalesce(policy, 'none')), 'there is nothing to approve');
    end if;
  end $$;

-- True for an object of amounts, as digits that a bigint holds: whatever is kept can be read, by views too.
create function effects_ledger.is_cost(cost json) returns boolean language plpgsql immutable
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    if coalesce(json_typeof(cost), '') <> 'object' then
      return false;
    end if;
    return not exists (select from json_each(cost) as c
                        where json_typeof(c.value) <> 'string' or c.value #>> '{}' !~ '^[0-9]{1,19}$'
                           or (c.value #>> '{}')::numeric > 9223372036854775807);
  exception when data_exception then
    return false; -- U+0000, which no text holds
  end $$;

create function effects.submit_approval(statement bytea, key_id text, signature bytea) returns uuid language plpgsql volatile
  security definer set search_path = pg_catalog, pg_temp
  as $$
  #variable_conflict use_column
  declare
    prefix constant bytea := convert_to(E'pg-effects/approval/1\n', 'UTF8');
    said json;
    about uuid;
    bound record;
    signer effects_ledger.approver;
    earlier effects_ledger.approval;
    differs text;
    given uuid;
  begin
    if substring(submit_approval.statement from 1 for length(prefix)) is distinct from prefix or length(submit_approval.statement) > 8192 then
      perform effects_ledger.refuse('PE117', 'approval_invalid: these bytes are not an approval''s statement', 'sign what effects.approval_statement returns, unchanged');
    elsif submit_approval.signature is null or length(submit_approval.signature) <> 64 then
      perform effects_ledger.refuse('PE117', 'approval_invalid: an Ed25519 signature has 64 bytes', 'sign the statement''s bytes as they are, without hashing them first');
    end if;
    begin
      said := convert_from(substring(submit_approval.statement from length(prefix) + 1), 'UTF8')::json;
      about := (said ->> 'effect')::uuid;
    exception when data_exception then
      perform effects_ledger.refuse('PE117', 'approval_invalid: these bytes are not an approval''s statement', 'sign what effects.approval_statement returns, unchanged');
    end;
    select * into signer from effects_ledger.approver k where k.key_id = submit_approval.key_id for share;
    if not found then
      perform effects_ledger.refuse('PE115', format('approver_unknown: no key is %s', effects_ledger.quoted(submit_approval.key_id)), 'the owner adds the approver''s key first');
    end if;
    select * into earlier from effects_ledger.approval a
      where a.key_id = submit_approval.key_id and sha256(a.statement) = sha256(submit_approval.statement);
    if found then
      if earlier.revoked_at is null then
        return earlier.approval_id;
      end if;
      perform effects_ledger.refuse('PE117', format('approval_invalid: this statement''s approval %s was revoked', earlier.approval_id),
                                    'a new approval wants a new statement');
    end if;
    perform from effects_ledger.effect e where e.effect_id = about for no key update;
    select e.state, encode(b.digest, 'hex') as digest, b.cost, b.expires_at, b.policy_id, i.ledger_id, i.recovery_epoch,
           p.approvals_needed, p.name as policy, p.requester_excluded, r.operation, r.version, r.actor, r.requested_by
      into bound
      from effects_ledger.effect e
      join effects_ledger.request r using (effect_id)
      cross join effects_ledger.identity i
      left join effects_payload.binding b on b.effect_id = e.effect_id and b.revision = e.revision
      left join effects_ledger.policy p on p.policy_id = b.policy_id
     where e.effect_id = about;
    perform effects_ledger.check_awaits_approval(about, bound.state, bound.policy, bound.approvals_needed);
    differs := case
      when said ->> 'ledger' is distinct from bound.ledger_id::text then 'it is another ledger''s'
      when said ->> 'epoch' is distinct from bound.recovery_epoch::text then 'it is of another recovery epoch'
      when said ->> 'digest' is distinct from bound.digest then 'it is about another binding than the one that stands'
      when said ->> 'operation' is distinct from bound.operation or said ->> 'version' is distinct from bound.version::text
        then 'it names another operation'
      when coalesce(said ->> 'expires_at_ms', '') !~ '^[0-9]{1,15}$' or effects_ledger.is_cost(said -> 'maximum_cost') is not true
        then 'its expiry or maximum cost cannot be read'
      when to_timestamp((said ->> 'expires_at_ms')::bigint / 1000.0) <= clock_timestamp() then 'it has expired'
      when signer.revoked_at is not null then format('the key of %s is revoked', signer.approver)
      when not exists (select from effects_ledger.policy_approver a where a.policy_id = bound.policy_id and a.approver = signer.approver)
        then format('the policy %s does not name %s', bound.policy, signer.approver)
      when bound.requester_excluded and signer.approver in (bound.actor, bound.requested_by)
        then format('%s asked for it, and the policy %s excludes the requester', signer.approver, bound.policy) end;
    if differs is not null then
      perform effects_ledger.refuse('PE117', 'approval_invalid: ' || differs, 'nothing is recorded; make a new statement about what stands');
    end if;
    insert into effects_ledger.approval (effect_id, verdict, approver, key_id, digest, expires_at, submitted_by, statement, signature)
    values (about, 'approved', signer.approver, signer.key_id, decode(bound.digest, 'hex'),
            to_timestamp((said ->> 'expires_at_ms')::bigint / 1000.0), effects_ledger.actor_now(), submit_approval.statement,
            submit_approval.signature)
    returning approval_id into given;
    perform effects_ledger.note_event(about, 'approval_submitted', jsonb_build_object('approval', given, 'approver', signer.approver,
                                                                                     'key_id', signer.key_id, 'digest', bound.digest));
    perform effects_ledger.requeue(array[about]);
    return given;
  end $$;
comment on function effects.submit_approval is
  'Keeps a signed statement and has its effect looked at again. Whether the signature is the key''s, the worker checks before it counts.';

-- Appends an event that changes no state.
create function effects_ledger.note_event(about uuid, word text, detail jsonb, by_worker text default null) returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    moment constant timestamptz := clock_timestamp();
    actor constant text := effects_ledger.actor_now();
    e effects_ledger.effect;
    next_hash bytea;
  begin
    select * into strict e from effects_ledger.effect x where x.effect_id = about for no key update;
    next_hash := effects_ledger.event_hash(e.head, about, e.seq + 1, moment, word, e.state, e.state, actor, by_worker, detail);
    insert into effects_ledger.event (effect_id, seq, at, event, from_state, to_state, by_role, by_worker, detail, previous_hash, hash)
    values (about, e.seq + 1, moment, word, e.state, e.state, actor, by_worker, detail, e.head, next_hash);
    update effects_ledger.effect x set seq = e.seq + 1, head = next_hash where x.effect_id = about;
  end $$;

create function effects.refuse(effect_id uuid, reason text) returns void language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp
  as $$
  #variable_conflict use_column
  declare
    bound record;
  begin
    perform effects_ledger.check_reason(refuse.reason);
    perform from effects_ledger.effect e where e.effect_id = refuse.effect_id for no key update;
    select e.state, p.approvals_needed, p.name as policy, b.digest into bound
      from effects_ledger.effect e
      left join effects_payload.binding b on b.effect_id = e.effect_id and b.revision = e.revision
      left join effects_ledger.policy p on p.policy_id = b.policy_id
     where e.effect_id = refuse.effect_id;
    perform effects_ledger.check_awaits_approval(refuse.effect_id, bound.state, bound.policy, bound.approvals_needed);
    insert into effects_ledger.approval (effect_id, verdict, approver, digest, submitted_by, reason)
    values (refuse.effect_id, 'refused', effects_ledger.actor_now(), bound.digest, effects_ledger.actor_now(), refuse.reason);
    perform effects_ledger.record_declined(jsonb_build_array(jsonb_build_object('effect_id', refuse.effect_id, 'reason', 'refused',
              'code', 'approval_refused', 'detail', jsonb_build_object('approver', effects_ledger.actor_now(), 'reason', refuse.reason))), null);
  end $$;
comment on function effects.refuse is 'Refuses what waits for an approval: it is declined, and nothing was sent.';

create function effects.revoke_approval(approval_id uuid, reason text) returns json language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp
  as $$
  #variable_conflict use_column
  declare
    known effects_ledger.approval;
    standing effects_ledger.effect;
  begin
    perform effects_ledger.check_reason(revoke_approval.reason);
    select * into known from effects_ledger.approval a
      where a.approval_id = revoke_approval.approval_id and a.verdict = 'approved' for no key update;
    if not found then
      perform effects_ledger.refuse('PE118', format('approval_unknown: there is no approval %s', revoke_approval.approval_id), 'audit.approvals lists them');
    end if;
    if known.revoked_at is null then
      update effects_ledger.approval a set revoked_at = clock_timestamp() where a.approval_id = known.approval_id;
      perform effects_ledger.record_authority('approval revoked', 'approval ' || known.approval_id, null,
                                              jsonb_build_object('effect', known.effect_id, 'approver', known.approver), revoke_approval.reason);
      perform effects_ledger.requeue(array[known.effect_id]);
    end if;
    select * into strict standing from effects_ledger.effect e where e.effect_id = known.effect_id;
    return json_build_object('effect_id', known.effect_id, 'state', standing.state,
                             'too_late', standing.admitted_at is not null);
  end $$;
comment on function effects.revoke_approval is 'Takes an approval back, for good. Says whether its effect was admitted before.';

-- What an approver reads: what waits for him or somebody else, in words that the digest covers.
create view effects.awaiting_approval as
  select e.effect_id, r.known_as as name, r.operation, r.version, t.path as task_path, r.actor, r.requested_by, r.requested_at,
         body.bound ->> 'account' as account, body.bound ->> 'target' as target, body.bound ->> 'preview' as preview,
         b.cost as maximum_cost, encode(b.digest, 'hex') as digest, b.expires_at, p.name as policy, p.approvals_needed,
         (select count(distinct a.approver) from effects_ledger.approval a join effects_ledger.approver k using (key_id)
           where a.effect_id = e.effect_id and a.digest = b.digest and a.revoked_at is null and k.revoked_at is null
             and a.expires_at > clock_timestamp()) as approvals_submitted,
         (select json_agg(a.approver order by a.approver) from effects_ledger.policy_approver a where a.policy_id = p.policy_id) as approvers,
         (select coalesce(json_agg(json_build_object('key_id', k.key_id, 'approver', k.approver, 'public_key', encode(k.public_key, 'hex'))
                                   order by k.approver, k.key_id), '[]')
            from effects_ledger.policy_approver a join effects_ledger.approver k using (approver)
           where a.policy_id = p.policy_id and k.revoked_at is null) as keys,
         b.binding_version, b.bytes as binding
    from effects_ledger.live v
    join effects_ledger.effect e using (effect_id)
    join effects_ledger.request r using (effect_id)
    join effects_ledger.task t using (task_id)
    join effects_payload.binding b on b.effect_id = e.effect_id and b.revision = e.revision
    join effects_ledger.policy p on p.policy_id = b.policy_id
    cross join lateral (select convert_from(b.bytes, 'UTF8')::json as bound) as body
   where e.state = 'prepared' and p.approvals_needed > 0 and b.expires_at > clock_timestamp();
comment on view effects.awaiting_approval is
  'What is prepared under a policy that wants approvals. approvals_submitted counts those whose signature is still to be checked.
binding: the bytes whose digest is signed (sha256 of the line pg-effects/binding/VERSION and these bytes). keys: who may sign.';

revoke all on all functions in schema effects, effects_ledger from public;
