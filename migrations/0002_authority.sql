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
  withdrawn_at    timestamptz,
  paused_at       timestamptz,
  primary key (operation, version),
  constraint "an operation's name is its file's" check (operation ~ '^[a-z][a-z0-9_]{0,62}$'),
  constraint "a version counts from 1" check (version >= 1),
  constraint "allowed by somebody at some time" check ((allowed_by is null) = (allowed_at is null))
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

create table effects_ledger.policy (
  policy_id  uuid primary key default effects_ledger.new_id(),
  name       text not null unique,
  revision   int not null default 1,
  added_by   text not null,
  added_at   timestamptz not null default clock_timestamp(),
  revoked_at timestamptz
);
comment on table effects_ledger.policy is
  'Rules that let a bounded class of effects be admitted. `ordinary` is built in and covers unprotected operations.';
insert into effects_ledger.policy (name, added_by) values ('ordinary', session_user);

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
        and new.reserved::numeric + new.spent + new.overrun > new.limit_amount)
  execute function effects_ledger.refuse_overdraft();
