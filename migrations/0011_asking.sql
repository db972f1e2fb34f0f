-- What operators call: ask the recipients about what is unresolved.
--
-- Invariants established here:
--   * everything is asked for by name, and a fence over many effects wants their count confirmed;
--   * the scope is what was unresolved when it was asked.

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
