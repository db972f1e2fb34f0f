-- Authority: who acts, under which task, with which budget, by which policy, through which operation.
--
-- Invariants established here:
--   * a task's lineage is fixed when it is opened, starts at a root and ends in itself, so a cycle cannot be written;
--   * a child's deadline lies within its parent's;
--   * a budget's sums are never negative, and `reserved` never rises past `limit - spent - overrun`, while a settlement
--     and a lower limit are never refused;
--   * whatever takes authority away updates one of these rows, which admission locks (protocol, section 5).

create table effects_ledger.actor (
  actor         text primary key,
  registered_by text not null,
  registered_at timestamptz not null default clock_timestamp(),
  revoked_at    timestamptz
);

-- Roles that may act in the name of an actor: for actors that are nobody's login. A role leaves by revoke_speaker, which also
-- writes the actor's row, the one that admission locks.
create table effects_ledger.speaker (
  actor         text not null references effects_ledger.actor,
  spoken_by     text not null,
  registered_by text not null,
  registered_at timestamptz not null default clock_timestamp(),
  primary key (actor, spoken_by)
);
create index speaker_spoken_by on effects_ledger.speaker (spoken_by);

-- True where a request in an actor's name still stands by right: the actor, or the role that spoke for it, is a member of
-- this ledger's role `service`, where it has roles; and who spoke for it may do so still.
create function effects_ledger.may_serve(actor text, spoken_by text) returns boolean language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
  #variable_conflict use_column
  declare
    service constant text := (select i.role_prefix || 'service' from effects_ledger.identity i);
  begin
    return (service is null or effects_ledger.is_member(coalesce(may_serve.spoken_by, may_serve.actor), service))
       and (may_serve.spoken_by is null or exists (select from effects_ledger.speaker s
              where s.actor = may_serve.actor and s.spoken_by = may_serve.spoken_by));
  end $$;

-- The actor itself where the acting role speaks for it, else null.
create function effects_ledger.spoken_for(actor text) returns text language sql stable
  set search_path = pg_catalog, pg_temp
  as $$ select s.actor from effects_ledger.speaker s where s.actor = $1 and s.spoken_by = effects_ledger.actor_now() $$;

create table effects_ledger.operation (
  operation       text not null,
  version         int not null,
  contract        jsonb not null,
  contract_digest bytea not null,
  input_schema    jsonb not null,
  implementation  text not null,
  release         text not null,
  protected       boolean not null default false,
  registered_by   text not null,
  registered_at   timestamptz not null default clock_timestamp(),
  allowed_by      text,
  allowed_at      timestamptz,
  allowed_implementation text,
  withdrawn_at    timestamptz,
  paused_at       timestamptz,
  primary key (operation, version),
  constraint "an operation's name is its file's" check (operation ~ '^[a-z][a-z0-9_]{0,62}$'),
  constraint "a version counts from 1" check (version >= 1),
  constraint "allowed by somebody at some time, and one implementation" check
    ((allowed_by is null) = (allowed_at is null) and (allowed_by is null) = (allowed_implementation is null))
);

create table effects_ledger.pause (
  scope     text not null,
  target    text not null,
  reason    text not null,
  paused_by text not null,
  paused_at timestamptz not null default clock_timestamp(),
  until     timestamptz,
  primary key (scope, target),
  constraint "a scope that can be paused" check (scope in ('operation', 'task', 'target', 'all')),
  constraint "everything is paused by name" check ((scope = 'all') = (target = '')),
  constraint "a reason is given" check (reason ~ '\S')
);
comment on table effects_ledger.pause is
  'What stands paused. Whoever changes it also writes the row that admission locks: the operation''s, the task''s, or the identity.';

-- What changed in authority, by whom and why, chained by hash like an effect's events.
create table effects_ledger.authority (
  seq           bigint primary key,
  at            timestamptz not null,
  by_role       text not null,
  change        text not null,
  object        text not null,
  before        jsonb,
  after         jsonb,
  reason        text,
  previous_hash bytea not null,
  hash          bytea not null
);
call effects_ledger.make_history('effects_ledger.authority');

create function effects_ledger.authority_hash(previous bytea, seq bigint, at timestamptz, by_role text, change text,
                                              object text, before jsonb, after jsonb, reason text)
  returns bytea language sql stable
  as $$
    select pg_catalog.sha256(pg_catalog.convert_to(pg_catalog.jsonb_build_array('pg-effects/authority/1',
      pg_catalog.encode(previous, 'hex'), seq, (extract(epoch from at) * 1000000)::bigint, by_role, change, object,
      before, after, reason)::text, 'UTF8'))
  $$;

-- Appends a change of authority. Changes wait for each other here; admissions do not.
create function effects_ledger.record_authority(change text, object text, before jsonb, after jsonb, reason text)
  returns void language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    moment constant timestamptz := clock_timestamp();
    actor constant text := effects_ledger.actor_now();
    head bytea;
    next_seq bigint;
  begin
    lock table effects_ledger.authority in share row exclusive mode;
    select a.hash, a.seq + 1 into head, next_seq from effects_ledger.authority a order by a.seq desc limit 1;
    head := coalesce(head, sha256(convert_to('pg-effects/authority-chain/1', 'UTF8')));
    next_seq := coalesce(next_seq, 1);
    insert into effects_ledger.authority (seq, at, by_role, change, object, before, after, reason, previous_hash, hash)
    values (next_seq, moment, actor, change, object, before, after, reason, head,
            effects_ledger.authority_hash(head, next_seq, moment, actor, change, object, before, after, reason));
  end $$;

create table effects_ledger.task (
  task_id    uuid primary key default effects_ledger.new_id(),
  name       text not null unique,
  parent_id  uuid references effects_ledger.task,
  lineage    uuid[] not null,
  path       text not null,
  subject    text,
  actor      text references effects_ledger.actor,
  deadline   timestamptz,
  opened_by  text not null,
  opened_at  timestamptz not null default clock_timestamp(),
  paused_at  timestamptz,
  ended_at   timestamptz,
  revoked_at timestamptz,
  constraint "a lineage ends in its task" check (lineage[cardinality(lineage)] = task_id),
  constraint "only a root has no parent" check ((parent_id is null) = (cardinality(lineage) = 1)),
  constraint "a parent stands before its child" check (parent_id is null or lineage[cardinality(lineage) - 1] = parent_id),
  constraint "a lineage is at most 16 deep" check (cardinality(lineage) <= 16),
  constraint "a task's name is 1 to 200 characters" check (length(name) between 1 and 200),
  constraint "only a root belongs to every actor" check (actor is not null or parent_id is null)
);
create index task_subject on effects_ledger.task (subject);
create index task_root on effects_ledger.task ((lineage[1]));

create function effects_ledger.refuse_task_move() returns trigger language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    raise exception 'task % keeps its name, lineage and actor', old.name using errcode = '42501';
  end $$;
create trigger "a task is not moved" after update on effects_ledger.task for each row
  when ((old.task_id, old.name, old.parent_id, old.lineage, old.path, old.actor, old.opened_by, old.opened_at)
        is distinct from
        (new.task_id, new.name, new.parent_id, new.lineage, new.path, new.actor, new.opened_by, new.opened_at))
  execute function effects_ledger.refuse_task_move();

create function effects_ledger.check_task_place() returns trigger language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    parent effects_ledger.task;
  begin
    if new.parent_id is null then
      return null;
    end if;
    select * into strict parent from effects_ledger.task t where t.task_id = new.parent_id;
    if parent.lineage || new.task_id is distinct from new.lineage then
      raise exception 'task % does not continue its parent''s lineage', new.name using errcode = '23514';
    end if;
    if parent.deadline is not null and (new.deadline is null or new.deadline > parent.deadline) then
      raise exception 'task % would outlive its parent %', new.name, parent.name
        using errcode = '23514', hint = format('its parent''s deadline is %s', parent.deadline);
    end if;
    return null;
  end $$;
create trigger "a task stands within its parent" after insert on effects_ledger.task
  for each row execute function effects_ledger.check_task_place();

with id as (select effects_ledger.new_id() as task_id)
insert into effects_ledger.task (task_id, name, lineage, path, opened_by)
select task_id, 'default', array[task_id], 'default', session_user from id;

create table effects_ledger.budget (
  task_id      uuid not null references effects_ledger.task,
  unit         text not null,
  limit_amount bigint not null,
  reserved     bigint not null default 0,
  spent        bigint not null default 0,
  overrun      bigint not null default 0,
  set_by       text not null,
  set_at       timestamptz not null default clock_timestamp(),
  suspended_at timestamptz,
  primary key (task_id, unit),
  constraint "a unit is a lower-case word" check (unit ~ '^[a-z][a-z0-9_]{0,31}$'),
  constraint "a limit is not negative" check (limit_amount >= 0),
  constraint "reserved is not negative" check (reserved >= 0),
  constraint "spent is not negative" check (spent >= 0),
  constraint "overrun is not negative" check (overrun >= 0)
) with (fillfactor = 45);
comment on table effects_ledger.budget is
  'A finite amount of one unit on one task. Left is limit_amount - reserved - spent - overrun.';

create function effects_ledger.refuse_overdraft() returns trigger language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    raise exception 'budget % of task % has no room: limit %, reserved %, spent %, overrun %',
      new.unit, new.task_id, new.limit_amount, new.reserved, new.spent, new.overrun
      using errcode = '23514', constraint = 'reserved does not rise past the limit';
  end $$;
create trigger "reserved does not rise past the limit" after update on effects_ledger.budget for each row
  when (new.reserved > old.reserved
        and new.reserved::numeric + new.spent + new.overrun > new.limit_amount
        -- What is presumed admitted after a recovery was reserved somewhere: the one rise that may pass a limit.
        and coalesce(current_setting('effects_ledger.presuming', true), '') <> 'on')
  execute function effects_ledger.refuse_overdraft();

create table effects_ledger.policy (
  policy_id           uuid primary key default effects_ledger.new_id(),
  name                text not null unique,
  revision            int not null default 1,
  operation           text,
  version             int,
  task_id             uuid references effects_ledger.task,
  actor               text,
  target              text,
  target_match        text,
  costs               jsonb not null default '{}',
  admissions_max      bigint,
  admissions_used     bigint not null default 0,
  open_max            bigint,
  open_now            bigint not null default 0,
  approvals_needed    int not null default 0,
  requester_excluded  boolean not null default true,
  precondition_enforced boolean not null default false,
  prepared_within     interval,
  expires_at          timestamptz,
  added_by            text not null,
  added_at            timestamptz not null default clock_timestamp(),
  revoked_at          timestamptz,
  suspended_at        timestamptz,
  foreign key (operation, version) references effects_ledger.operation,
  constraint "a policy's name is 1 to 200 characters" check (length(name) between 1 and 200),
  constraint "only the ordinary policy covers no operation in particular" check
    ((name = 'ordinary') = (operation is null) and (operation is null) = (version is null)
     and (operation is null) = (task_id is null)),
  constraint "a target is met exactly or as a beginning" check
    ((target is null) = (target_match is null) and target_match in ('exact', 'prefix') and target <> ''),
  constraint "admissions do not rise past their bound" check
    (admissions_max >= 0 and admissions_used >= 0 and (admissions_max is null or admissions_used <= admissions_max)),
  constraint "a bound on open effects is not negative" check (open_max >= 0 and open_now >= 0),
  constraint "approvals are counted from 0 to 16" check (approvals_needed between 0 and 16),
  constraint "an age is positive" check (prepared_within > interval '0')
) with (fillfactor = 45);
comment on table effects_ledger.policy is
  'Rules that let a bounded class of effects be admitted. `ordinary` is built in and covers unprotected operations.';
create unique index policy_alike on effects_ledger.policy (operation, version, task_id, actor, target, target_match, costs)
  nulls not distinct where revoked_at is null and operation is not null;
insert into effects_ledger.policy (name, added_by) values ('ordinary', session_user);

create function effects_ledger.refuse_policy_change() returns trigger language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    raise exception 'policy % is not changed', old.name using errcode = '42501', hint = 'revoke it and add another one';
  end $$;
create trigger "a policy is not changed" after update on effects_ledger.policy for each row
  when (to_jsonb(old) - '{admissions_used,open_now,revoked_at,suspended_at}'::text[]
        is distinct from to_jsonb(new) - '{admissions_used,open_now,revoked_at,suspended_at}'::text[]
        or old.revoked_at is not null and new.revoked_at is distinct from old.revoked_at
        or new.admissions_used < old.admissions_used)
  execute function effects_ledger.refuse_policy_change();
create trigger "a policy is not deleted" before delete on effects_ledger.policy
  for each row execute function effects_ledger.refuse_change();
create trigger "policies are not emptied" before truncate on effects_ledger.policy
  for each statement execute function effects_ledger.refuse_change();

create function effects_ledger.refuse_open_rise() returns trigger language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    raise exception 'policy % has % open effects of %', new.name, new.open_now, new.open_max
      using errcode = '23514', constraint = 'open effects do not rise past their bound';
  end $$;
create trigger "open effects do not rise past their bound" after update on effects_ledger.policy for each row
  when (new.open_now > old.open_now and new.open_now > new.open_max
        and coalesce(current_setting('effects_ledger.presuming', true), '') <> 'on')
  execute function effects_ledger.refuse_open_rise();

-- Who may approve what a policy wants approved.
create table effects_ledger.policy_approver (
  policy_id uuid not null references effects_ledger.policy,
  approver  text not null,
  primary key (policy_id, approver)
);
call effects_ledger.make_history('effects_ledger.policy_approver');

-- The keys by which people approve. A key's id is of its bytes, so that one name cannot stand for another key.
create table effects_ledger.approver (
  key_id     text primary key,
  approver   text not null,
  public_key bytea not null,
  added_by   text not null,
  added_at   timestamptz not null default clock_timestamp(),
  revoked_at timestamptz,
  constraint "an Ed25519 public key has 32 bytes" check (octet_length(public_key) = 32),
  constraint "a key's id is of the key" check (key_id = left(encode(sha256(public_key), 'hex'), 32)),
  constraint "an approver's name is 1 to 200 characters" check (length(approver) between 1 and 200)
);
create index approver_name on effects_ledger.approver (approver);
create function effects_ledger.refuse_approver_change() returns trigger language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    raise exception 'the key % of % is not changed', old.key_id, old.approver using errcode = '42501', hint = 'revoke it and add another one';
  end $$;
create trigger "an approver's key is not changed" after update on effects_ledger.approver for each row
  when (to_jsonb(old) - 'revoked_at' is distinct from to_jsonb(new) - 'revoked_at'
        or old.revoked_at is not null and new.revoked_at is distinct from old.revoked_at)
  execute function effects_ledger.refuse_approver_change();
create trigger "an approver's key is not deleted" before delete on effects_ledger.approver
  for each row execute function effects_ledger.refuse_change();
create trigger "approvers are not emptied" before truncate on effects_ledger.approver
  for each statement execute function effects_ledger.refuse_change();
