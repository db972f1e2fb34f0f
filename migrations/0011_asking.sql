-- What operators call: ask the recipients about what is unresolved.
--
-- Invariants established here:
--   * everything is asked for by name, and a fence or resubmission over many effects wants their count confirmed;
--   * the scope is what was unresolved when it was asked; what is uncertain is asked about again only on request;
--   * inline effects are left out, and that is recorded: the code that could ask is their host's.

create table effects_ledger.reconciliation_skip (
  reconciliation_id uuid not null references effects_ledger.reconciliation,
  effect_id         uuid not null references effects_ledger.effect,
  because           text not null,
  primary key (reconciliation_id, effect_id)
);
comment on table effects_ledger.reconciliation_skip is 'What would have been in a request''s scope, and is asked about by nobody''s job.';
call effects_ledger.make_history('effects_ledger.reconciliation_skip');

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
    longest constant interval := (select i.reconcile_deadline_max from effects_ledger.identity i);
    in_scope int;
  begin
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
          or request_reconciliation.deadline > clock_timestamp() + longest then
      perform effects_ledger.refuse('22023', format('the deadline is not within the next %s',
                                      case longest when interval '24 hours' then '24 hours' else longest::text end), 'give such a moment');
    elsif coalesce(request_reconciliation.allow_fence, false) and coalesce(request_reconciliation.allow_resubmit, false) then
      perform effects_ledger.refuse('22023', 'a fence and a resubmission exclude each other', 'allow one of them');
    elsif request_reconciliation.scope = 'task'
          and not exists (select from effects_ledger.task t where t.name = request_reconciliation.task) then
      perform effects_ledger.refuse('PE103', format('task_unknown: no task is named %s', effects_ledger.quoted(request_reconciliation.task)),
                                    'name a task that exists');
    elsif request_reconciliation.operation = 'inline' then
      perform effects_ledger.refuse('PE122', 'inline_effect: the code that asks about an inline effect is its host''s',
                                    'call it again under its run and name, or resolve it: effects.resolve');
    elsif request_reconciliation.scope = 'operation'
          and not exists (select from effects_ledger.operation o where o.operation = request_reconciliation.operation) then
      perform effects_ledger.refuse('PE101', format('operation_unknown: no operation is named %s', effects_ledger.quoted(request_reconciliation.operation)),
                                    'name an operation that is registered');
    elsif request_reconciliation.scope = 'effect' then
      select * into standing from effects_ledger.standing s where s.effect_id = request_reconciliation.effect_id;
      if not found then
        perform effects_ledger.refuse('PE109', format('effect_unknown: there is no effect %s', request_reconciliation.effect_id),
                                      'name an effect of this ledger');
      elsif standing.operation = 'inline' then
        perform effects_ledger.refuse('PE122', format('inline_effect: the code that asks about effect %s is its host''s', standing.effect_id),
                                      'call it again under its run and name, or resolve it: effects.resolve');
      elsif standing.state = 'uncertain' and standing.unresolved and not coalesce(request_reconciliation.include_uncertain, false) then
        perform effects_ledger.refuse('PE110', format('not_unresolved: effect %s is uncertain: it was asked about, and nobody could tell',
                                        standing.effect_id), 'include_uncertain => true asks again; what that finds is a resolution');
      elsif not standing.unresolved then
        perform effects_ledger.refuse('PE110', format('not_unresolved: effect %s is %s%s', standing.effect_id, standing.state,
                                        case standing.state when 'admitted' then ' and may still be being dispatched' else '' end),
                                      'only what is admitted and unresolved is asked about');
      end if;
    end if;

    insert into effects_ledger.reconciliation (requested_by, scope, scope_name, allow_fence, allow_resubmit, include_uncertain,
      deadline)
    values (effects_ledger.actor_now(), request_reconciliation.scope, coalesce(request_reconciliation.effect_id::text,
            request_reconciliation.task, request_reconciliation.operation), coalesce(request_reconciliation.allow_fence, false),
            coalesce(request_reconciliation.allow_resubmit, false), coalesce(request_reconciliation.include_uncertain, false),
            request_reconciliation.deadline)
    returning * into asked;
    with wanted as materialized (
    select e.effect_id, r.operation, e.admitted_under = 'inline' as inline
      from effects_ledger.live v
      join effects_ledger.effect e using (effect_id)
      join effects_ledger.request r using (effect_id)
      join effects_ledger.task t using (task_id)
     where (e.state = 'admitted' or e.state = 'uncertain' and asked.include_uncertain)
       and coalesce(e.unresolved_since, e.dispatch_deadline) <= asked.requested_at
       and (request_reconciliation.effect_id is null or e.effect_id = request_reconciliation.effect_id)
       and (request_reconciliation.operation is null or r.operation = request_reconciliation.operation)
       and (request_reconciliation.task is null or exists (select from effects_ledger.task a
              where a.name = request_reconciliation.task and a.task_id = any (t.lineage)))
       and (request_reconciliation.since is null
            or coalesce(e.unresolved_since, e.dispatch_deadline) >= request_reconciliation.since)
       and (request_reconciliation.older_than is null
            or coalesce(e.unresolved_since, e.dispatch_deadline) <= asked.requested_at - request_reconciliation.older_than)
    ), skipped as (
      insert into effects_ledger.reconciliation_skip (reconciliation_id, effect_id, because)
      select asked.reconciliation_id, w.effect_id, 'inline' from wanted w where w.inline
    )
    insert into effects_ledger.reconciliation_effect (reconciliation_id, effect_id, operation)
    select asked.reconciliation_id, w.effect_id, w.operation from wanted w where not w.inline;
    get diagnostics in_scope = row_count;
    if (asked.allow_fence or asked.allow_resubmit) and in_scope > 1 and confirm_count is distinct from in_scope then
      perform effects_ledger.refuse('PE111', format('count_unconfirmed: %s effects would be %s', in_scope,
                                      case when asked.allow_fence then 'fenced' else 'resubmitted' end),
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
