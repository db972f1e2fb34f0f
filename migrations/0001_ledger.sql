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
  reconcile_deadline_max interval not null default interval '24 hours',
  role_prefix       text,
  closed_at         timestamptz,
  lost_admission    uuid,
  violated_at       timestamptz,
  durability_attested text,
  synchronous_standby boolean not null default false,
  founded_at        timestamptz not null default clock_timestamp(),
  constraint "a database holds one ledger" check (singleton),
  constraint "a reconciliation ends within a day" check
    (reconcile_deadline_max > interval '0' and reconcile_deadline_max <= interval '24 hours'),
  constraint "a ledger's name is a short lower-case word" check (name ~ '^[a-z][a-z0-9_-]{0,62}$'),
  constraint "a role prefix is lower-case and ends with an underscore" check (role_prefix ~ '^[a-z][a-z0-9_]{0,39}_$')
);
comment on table effects_ledger.identity is
  'Where this ledger was written. A copy, a restore or a promoted standby differs from it, and admission closes.';
comment on column effects_ledger.identity.role_prefix is
  'What the names of this ledger''s roles begin with (src/store/role-matrix.ts); null where its owner does everything.';

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

-- This server, database and timeline, in one word.
create function effects_ledger.place_now() returns text language sql volatile security definer
  set search_path = pg_catalog, pg_temp
  as $$
    select concat_ws(' ', (select c.system_identifier from pg_control_system() c),
                     (select d.oid from pg_database d where d.datname = current_database()), effects_ledger.timeline_now())
  $$;

-- Why this database is not, or may not be, the ledger as it was; null where nothing is seen (protocol, section 10).
create function effects_ledger.identity_gap() returns text language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    if pg_is_in_recovery() then
      return 'standby';
    end if;
    return (select case
        when i.system_identifier <> (select c.system_identifier::text from pg_control_system() c) then 'another_server'
        when i.database_oid <> (select d.oid from pg_database d where d.datname = current_database()) then 'another_database'
        when i.timeline <> effects_ledger.timeline_now() then 'another_timeline'
        when i.xmin::text::bigint <> (i.written_by::text::numeric % 4294967296)::bigint then 'written_again'
        when i.lost_admission is not null then 'admission_lost'
        when i.closed_at is not null then 'closed' end
      from effects_ledger.identity i);
  end $$;

-- The same in one word: ok, standby, or unacknowledged.
create function effects_ledger.identity_standing() returns text language sql volatile security definer
  set search_path = pg_catalog, pg_temp
  as $$
    select case coalesce(effects_ledger.identity_gap(), 'ok') when 'ok' then 'ok' when 'standby' then 'standby' else 'unacknowledged' end
  $$;

-- Settings without which a confirmed commit may be lost; null where there is none (protocol, section 10).
create function effects_ledger.durability_gap() returns text language sql stable security definer
  set search_path = pg_catalog, pg_temp
  as $$
    select nullif(concat_ws(', ',
             case when current_setting('fsync') = 'off' and i.durability_attested is null then 'fsync is off' end,
             case when current_setting('full_page_writes') = 'off' and i.durability_attested is null then 'full_page_writes is off' end,
             case when i.synchronous_standby and current_setting('synchronous_standby_names') = '' then 'synchronous_standby_names is empty' end), '')
      from effects_ledger.identity i
  $$;

-- The role that acts: the one in force by SET ROLE, else the session's user. Holds inside definer functions too.
create function effects_ledger.actor_now() returns text language sql stable
  set search_path = pg_catalog, pg_temp
  as $$ select case when current_setting('role') = 'none' then session_user::text else current_setting('role') end $$;

-- True where both are roles and the first is a member of the second, directly or not. Both are looked up by calls, which
-- read the catalogue as it is now; a query would read it as of the snapshot (protocol, section 5). A role that is missing
-- is nobody's member.
create function effects_ledger.is_member(member text, of_role text) returns boolean language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    if member = '' or octet_length(member) > 63 then
      return false; -- no role's name, and one that is cut short would be another's
    end if;
    return coalesce(pg_has_role(to_regrole(quote_ident(member)), to_regrole(quote_ident(of_role)), 'MEMBER'), false);
  end $$;

-- True where the acting role has one of this ledger's roles; never where it has none.
create function effects_ledger.has_role(suffix text) returns boolean language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    prefix constant text := (select i.role_prefix from effects_ledger.identity i);
  begin
    return prefix is not null and effects_ledger.is_member(effects_ledger.actor_now(), prefix || suffix);
  end $$;

-- Empty tables. A batch locks the gates of its root tasks, in order, before its snapshot is taken.
create table effects_ledger.gate_0 ();
create table effects_ledger.gate_1 ();
create table effects_ledger.gate_2 ();
create table effects_ledger.gate_3 ();
create table effects_ledger.gate_4 ();
create table effects_ledger.gate_5 ();
create table effects_ledger.gate_6 ();
create table effects_ledger.gate_7 ();
