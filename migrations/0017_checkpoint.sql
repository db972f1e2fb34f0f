-- Audit over time: how things stood at a moment, and checkpoints that make a deletion visible.
--
-- Invariants established here:
--   * a checkpoint covers what changed since the one before it, and is chained to it;
--   * its signature is made with a key that the database never holds, and is checked by whoever has the public key.

-- The fold of events up to a moment: where each effect stood then, and not now.
create function audit.effects_at(moment timestamptz)
  returns table (effect_id uuid, name text, operation text, operation_version int, task_path text, subject text, actor text,
                 requested_at timestamptz, state text, unresolved boolean, unresolved_since timestamptz, outcome_via text,
                 resolution text, seq int)
  language sql stable security definer set search_path = pg_catalog, pg_temp
  as $$
    select r.effect_id, r.known_as as name, r.operation, r.version, t.path, t.subject, r.actor, r.requested_at, v.to_state,
           doubt.since is not null, doubt.since, case when o.at <= moment then o.via end,
           case when y.at <= moment then 'evidence' when z.at <= moment then z.kind end, v.seq
      from effects_ledger.request r
      join effects_ledger.task t using (task_id)
      join effects_ledger.effect e using (effect_id)
      cross join lateral (select x.to_state, x.seq from effects_ledger.event x
                           where x.effect_id = r.effect_id and x.at <= moment order by x.seq desc limit 1) as v
      left join effects_ledger.outcome o on o.effect_id = r.effect_id
      left join effects_ledger.resolution z on z.effect_id = r.effect_id
      left join effects_ledger.resolution_after_risk y on y.effect_id = r.effect_id
      cross join lateral (select case
          when v.to_state = 'admitted' or v.to_state = 'uncertain' and (z.at is null or z.at > moment)
          then (select min(w.since) from (
                  select e.dispatch_deadline as since where e.dispatch_deadline <= moment
                  union all
                  select x.at from effects_ledger.event x
                   where x.effect_id = r.effect_id and x.event = 'unresolved' and x.at <= moment) as w) end as since) as doubt
     where r.requested_at <= moment
  $$;
comment on function audit.effects_at is
  'Each effect as it stood at a moment: the fold of its events up to then. What was unresolved at the end of a month is asked here.';

create table effects_ledger.checkpoint (
  checkpoint_id bigint primary key,
  at            timestamptz not null,
  effects       bigint not null,
  authority_seq bigint not null,
  root_hash     bytea not null,
  made_by       text not null,
  key_id        text,
  signature     bytea,
  constraint "signed by a key, or not at all" check ((key_id is null) = (signature is null)),
  constraint "an Ed25519 signature has 64 bytes" check (octet_length(signature) = 64)
);
create table effects_ledger.checkpoint_head (
  checkpoint_id bigint not null references effects_ledger.checkpoint,
  effect_id     uuid not null,
  seq           int not null,
  primary key (checkpoint_id, effect_id)
);
comment on table effects_ledger.checkpoint_head is 'Which event was each effect''s last, for those that had moved since the checkpoint before.';
create index checkpoint_head_effect on effects_ledger.checkpoint_head (effect_id, seq desc);
call effects_ledger.make_history('effects_ledger.checkpoint_head');

create function effects_ledger.refuse_checkpoint_change() returns trigger language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    raise exception 'checkpoint % is not changed', old.checkpoint_id using errcode = '42501', hint = 'it is signed once, nothing else';
  end $$;
create trigger "a checkpoint is signed once" after update on effects_ledger.checkpoint for each row
  when (to_jsonb(old) - '{key_id,signature}'::text[] is distinct from to_jsonb(new) - '{key_id,signature}'::text[]
        or old.signature is not null)
  execute function effects_ledger.refuse_checkpoint_change();
create trigger "a checkpoint is not deleted" before delete on effects_ledger.checkpoint
  for each row execute function effects_ledger.refuse_change();
create trigger "checkpoints are not emptied" before truncate on effects_ledger.checkpoint
  for each statement execute function effects_ledger.refuse_change();

-- A Merkle root (RFC 6962: a leaf is hashed behind 0x00, a node behind 0x01; a lone last node goes up as it is).
create function effects_ledger.merkle_root(leaves bytea[]) returns bytea language plpgsql immutable
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    level bytea[];
  begin
    if cardinality(leaves) = 0 then
      return sha256(''::bytea);
    end if;
    select array_agg(sha256('\x00'::bytea || l.leaf) order by l.place) into level from unnest(leaves) with ordinality as l(leaf, place);
    while cardinality(level) > 1 loop
      select array_agg(coalesce(sha256('\x01'::bytea || n.node || n.next), n.node) order by n.place) into level
        from (select x.node, x.place, lead(x.node) over (order by x.place) as next
                from unnest(level) with ordinality as x(node, place)) as n
       where n.place % 2 = 1;
    end loop;
    return level[1];
  end $$;

-- A checkpoint's root: over the root before it, the head of changed authority, and the last events of what had moved.
create function effects_ledger.root_over(previous bytea, upto_authority bigint, moved uuid[], seqs int[]) returns bytea language sql stable
  set search_path = pg_catalog, pg_temp
  as $$
    select effects_ledger.merkle_root(array[previous, coalesce((select a.hash from effects_ledger.authority a where a.seq = upto_authority), ''::bytea)]
      || coalesce((select array_agg(uuid_send(h.effect_id) || int4send(h.seq) || coalesce(v.hash, ''::bytea) order by h.effect_id)
                     from unnest(moved, seqs) as h(effect_id, seq)
                     left join effects_ledger.event v on v.effect_id = h.effect_id and v.seq = h.seq), '{}'))
  $$;

-- The same of a checkpoint that was made, from what the tables hold now.
create function effects_ledger.checkpoint_root(about bigint) returns bytea language sql stable security definer
  set search_path = pg_catalog, pg_temp
  as $$
    select effects_ledger.root_over(
             coalesce((select p.root_hash from effects_ledger.checkpoint p where p.checkpoint_id = about - 1),
                      sha256(convert_to('pg-effects/checkpoint-chain/1', 'UTF8'))),
             c.authority_seq,
             (select array_agg(h.effect_id order by h.effect_id) from effects_ledger.checkpoint_head h where h.checkpoint_id = about),
             (select array_agg(h.seq order by h.effect_id) from effects_ledger.checkpoint_head h where h.checkpoint_id = about))
      from effects_ledger.checkpoint c where c.checkpoint_id = about
  $$;

-- What is signed: a line that says what it is, and JSON of ledger, number, effects and root.
create function effects_ledger.checkpoint_statement(about bigint) returns bytea language sql stable security definer
  set search_path = pg_catalog, pg_temp
  as $$
    select convert_to(format(E'pg-effects/checkpoint/1\n{"authority_seq":%s,"checkpoint":%s,"effects":%s,"ledger":"%s","root":"%s"}',
             c.authority_seq, c.checkpoint_id, c.effects, i.ledger_id, encode(c.root_hash, 'hex')), 'UTF8')
      from effects_ledger.checkpoint c cross join effects_ledger.identity i where c.checkpoint_id = about
  $$;

create function effects.make_checkpoint() returns table (checkpoint_id bigint, statement bytea) language plpgsql volatile
  security definer set search_path = pg_catalog, pg_temp
  as $$
  #variable_conflict use_column
  declare
    earlier effects_ledger.checkpoint;
    next bigint;
    moved uuid[];
    seqs int[];
    authority bigint;
    previous bytea;
  begin
    lock table effects_ledger.checkpoint in share row exclusive mode;
    select * into earlier from effects_ledger.checkpoint c order by c.checkpoint_id desc limit 1;
    next := coalesce(earlier.checkpoint_id, 0) + 1;
    previous := coalesce(earlier.root_hash, sha256(convert_to('pg-effects/checkpoint-chain/1', 'UTF8')));
    authority := coalesce((select max(a.seq) from effects_ledger.authority a), 0);
    select array_agg(e.effect_id order by e.effect_id), array_agg(e.seq order by e.effect_id) into moved, seqs
      from effects_ledger.effect e
     where e.seq > coalesce((select h.seq from effects_ledger.checkpoint_head h where h.effect_id = e.effect_id
                              order by h.seq desc limit 1), 0);
    insert into effects_ledger.checkpoint (checkpoint_id, at, effects, authority_seq, root_hash, made_by)
    values (next, clock_timestamp(), coalesce(cardinality(moved), 0), authority,
            effects_ledger.root_over(previous, authority, moved, seqs), effects_ledger.actor_now());
    insert into effects_ledger.checkpoint_head (checkpoint_id, effect_id, seq)
    select next, h.effect_id, h.seq from unnest(moved, seqs) as h(effect_id, seq);
    return query select next, effects_ledger.checkpoint_statement(next);
  end $$;
comment on function effects.make_checkpoint is
  'Covers what changed since the last checkpoint. Returns the statement that somebody signs (Ed25519) with a key outside this database.';

create function effects.sign_checkpoint(checkpoint_id bigint, key_id text, signature bytea) returns void language plpgsql volatile
  security definer set search_path = pg_catalog, pg_temp
  as $$
  #variable_conflict use_column
  begin
    if coalesce(sign_checkpoint.key_id, '') !~ '^[0-9a-f]{32}$' or length(sign_checkpoint.signature) is distinct from 64 then
      perform effects_ledger.refuse('22023', 'a key''s id has 32 hex digits and an Ed25519 signature 64 bytes',
                                    'the id is the first half of the SHA-256 of the 32 bytes of the public key');
    end if;
    update effects_ledger.checkpoint c set key_id = sign_checkpoint.key_id, signature = sign_checkpoint.signature
     where c.checkpoint_id = sign_checkpoint.checkpoint_id and c.signature is null;
    if not found then
      perform effects_ledger.refuse('22023', format('there is no unsigned checkpoint %s', sign_checkpoint.checkpoint_id), 'audit.checkpoints lists them');
    end if;
  end $$;
comment on function effects.sign_checkpoint is 'Keeps a checkpoint''s signature. It is checked by whoever holds the public key.';

create view audit.checkpoints as
  select c.checkpoint_id, c.at, c.effects, c.authority_seq, encode(c.root_hash, 'hex') as root_hash, c.key_id,
         encode(c.signature, 'hex') as signature, encode(effects_ledger.checkpoint_statement(c.checkpoint_id), 'hex') as statement, c.made_by
    from effects_ledger.checkpoint c;
comment on view audit.checkpoints is 'Signed roots over the last events of all effects: what they cover cannot be taken away unseen.';

revoke all on all functions in schema effects, effects_ledger, audit from public;
