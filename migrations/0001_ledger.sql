-- The ledger itself: which database it is, which ledger it names, and the gates by which processes wait for each other.
--
-- Invariants established here:
--   * a database holds one ledger, and its identity row says in which server, database and timeline it was written;
--   * whatever is a history in this project refuses UPDATE, DELETE and TRUNCATE, for every role that triggers bind.

create schema effects;
comment on schema effects is 'What applications call: request, observe, reconcile. Functions and views only.';
create schema effects_ledger;
comment on schema effects_ledger is 'The ledger''s own tables and functions. Private: use the schemas effects and audit.';
create schema effects_payload;
comment on schema effects_payload is 'Inputs, bindings, payloads and evidence: what may be personal, kept apart from the record.';
create schema audit;
comment on schema audit is 'The ledger as an auditor reads it: views only, columns are only ever added.';

-- A time-ordered UUID (version 7): its first digits are the millisecond, its last eight are random and serve as short id.
create function effects_ledger.new_id() returns uuid language sql volatile
  set search_path = pg_catalog, pg_temp
  as $$
    select encode(
      set_bit(set_bit(
        overlay(uuid_send(gen_random_uuid())
                placing substring(int8send(floor(extract(epoch from clock_timestamp()) * 1000)::bigint) from 3)
                from 1 for 6),
        52, 1), 53, 1), 'hex')::uuid
  $$;

create function effects_ledger.refuse_change() returns trigger language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    raise exception '%.% is a history: % is refused', tg_table_schema, tg_table_name, tg_op
      using errcode = '42501', hint = 'append a new record; what happened is never edited';
  end $$;

-- Makes a table a history. Called once for each by the migration that creates it.
create procedure effects_ledger.make_history(history regclass) language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    execute format('create trigger "history is not changed" before update or delete on %s '
                   'for each row execute function effects_ledger.refuse_change()', history);
    execute format('create trigger "history is not emptied" before truncate on %s '
                   'for each statement execute function effects_ledger.refuse_change()', history);
  end $$;

create table effects_ledger.identity (
  singleton         boolean primary key default true,
  ledger_id         uuid not null default gen_random_uuid(),
  name              text not null,
  system_identifier text not null,
  database_oid      oid not null,
  timeline          text not null,
  written_by        xid8 not null,
  recovery_epoch    uuid not null default gen_random_uuid(),
  strict            boolean not null default false,
  pause_revision    bigint not null default 0,
  founded_at        timestamptz not null default clock_timestamp(),
  constraint "a database holds one ledger" check (singleton),
  constraint "a ledger's name is a short lower-case word" check (name ~ '^[a-z][a-z0-9_-]{0,62}$')
);
comment on table effects_ledger.identity is
  'Where this ledger was written. A copy, a restore or a promoted standby differs from it, and admission closes.';

-- The timeline that this server writes now. The control file's lags a promotion by minutes, so it is read from the name
-- of the WAL file at the insert position.
create function effects_ledger.timeline_now() returns text language sql volatile
  set search_path = pg_catalog, pg_temp
  as $$ select substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8) $$;

-- Founds the ledger of a freshly migrated database; does nothing where one exists.
create function effects_ledger.found(ledger_name text) returns void language sql volatile
  set search_path = pg_catalog, pg_temp
  as $$
    insert into effects_ledger.identity (name, system_identifier, database_oid, timeline, written_by)
    select ledger_name, (select system_identifier::text from pg_control_system()),
           (select oid from pg_database where datname = current_database()),
           effects_ledger.timeline_now(), pg_current_xact_id()
    on conflict (singleton) do nothing
  $$;

-- One word on whether this database is the ledger it was: ok, standby, or unacknowledged (protocol, section 10).
create function effects_ledger.identity_standing() returns text language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    matches boolean;
  begin
    if pg_is_in_recovery() then
      return 'standby';
    end if;
    select i.system_identifier = (select c.system_identifier::text from pg_control_system() c)
       and i.database_oid = (select d.oid from pg_database d where d.datname = current_database())
       and i.timeline = effects_ledger.timeline_now()
       and i.xmin::text::bigint = (i.written_by::text::numeric % 4294967296)::bigint
      into matches
      from effects_ledger.identity i;
    return case when matches then 'ok' else 'unacknowledged' end;
  end $$;

-- Settings without which a confirmed commit may be lost; null where there is none (protocol, section 10).
create function effects_ledger.durability_gap() returns text language sql stable
  set search_path = pg_catalog, pg_temp
  as $$
    select nullif(concat_ws(', ', case when current_setting('fsync') = 'off' then 'fsync is off' end,
                                  case when current_setting('full_page_writes') = 'off' then 'full_page_writes is off' end), '')
  $$;

-- The role that acts: the one in force by SET ROLE, else the session's user. Holds inside definer functions too.
create function effects_ledger.actor_now() returns text language sql stable
  set search_path = pg_catalog, pg_temp
  as $$ select case when current_setting('role') = 'none' then session_user::text else current_setting('role') end $$;

-- Empty tables. A batch locks the gates of its root tasks, in order, before its snapshot is taken.
create table effects_ledger.gate_0 ();
create table effects_ledger.gate_1 ();
create table effects_ledger.gate_2 ();
create table effects_ledger.gate_3 ();
create table effects_ledger.gate_4 ();
create table effects_ledger.gate_5 ();
create table effects_ledger.gate_6 ();
create table effects_ledger.gate_7 ();
