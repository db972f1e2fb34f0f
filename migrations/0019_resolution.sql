-- Resolution and evidence from outside: what people and registered sources say about an effect, and what that settles.
--
-- Invariants established here:
--   * whoever resolves says by which evidence, or that he accepts the risk; an acknowledgement alone proves nothing;
--   * of two who resolve, one wins and the other is told;
--   * what disagrees with the record is kept beside it, and shown.

create function effects.add_source(source text, reason text, authoritative boolean default false, submitted_by text default null)
  returns void language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
  as $$
  #variable_conflict use_column
  declare
    known effects_ledger.source;
  begin
    perform effects_ledger.check_reason(add_source.reason);
    if coalesce(add_source.source, '') !~ '^[a-z][a-z0-9_]{0,62}$' or add_source.source in ('dispatch', 'run', 'reconcile', 'operator', 'cleanup') then
      perform effects_ledger.refuse('22023', format('the source %s is refused', effects_ledger.quoted(add_source.source)),
                                    'a source is named by a lower-case word of at most 63 characters');
    end if;
    if coalesce(add_source.authoritative, false) and add_source.submitted_by is null
       and (select i.role_prefix from effects_ledger.identity i) is not null then
      perform effects_ledger.refuse('22023', format('the source %s would be authoritative for whoever asks', add_source.source),
                                    'name the role that submits for it in submitted_by');
    end if;
    select * into known from effects_ledger.source s where s.source = add_source.source for no key update;
    if found and (known.revoked_at is not null or known.authoritative <> coalesce(add_source.authoritative, false)
                  or known.submitted_by is distinct from add_source.submitted_by) then
      perform effects_ledger.refuse('22023', format('the source %s is there, and another one', add_source.source), 'revoke it, and add one of another name');
    elsif not found then
      insert into effects_ledger.source (source, submitted_by, authoritative, added_by)
      values (add_source.source, add_source.submitted_by, coalesce(add_source.authoritative, false), effects_ledger.actor_now());
      perform effects_ledger.record_authority('source added', 'source ' || add_source.source, null,
        jsonb_build_object('authoritative', coalesce(add_source.authoritative, false), 'submitted_by', add_source.submitted_by), add_source.reason);
    end if;
  end $$;
comment on function effects.add_source is
  'Registers who may submit evidence. What an authoritative source says settles doubt; another one''s is kept for people.';

create function effects.revoke_source(source text, reason text) returns void language plpgsql volatile
  security definer set search_path = pg_catalog, pg_temp
  as $$
  #variable_conflict use_column
  begin
    perform effects_ledger.check_reason(revoke_source.reason);
    update effects_ledger.source s set revoked_at = clock_timestamp() where s.source = revoke_source.source and s.revoked_at is null;
    if found then
      perform effects_ledger.record_authority('source revoked', 'source ' || revoke_source.source, null, null, revoke_source.reason);
    elsif not exists (select from effects_ledger.source s where s.source = revoke_source.source) then
      perform effects_ledger.refuse('22023', format('there is no source %s', effects_ledger.quoted(revoke_source.source)), 'audit.sources lists them');
    end if;
  end $$;
comment on function effects.revoke_source is 'Takes no more evidence from a source. What it said stays.';

-- Evidence as it is stored: canonical only in that its bytes are digested as they are kept.
create function effects_ledger.evidence_of(given json) returns jsonb language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    kept bytea;
  begin
    if given is null or given::jsonb in ('null', '{}', '[]', '""', 'true', 'false') then
      perform effects_ledger.refuse('22023', 'there is no evidence', 'give what was seen: a document, its digest, a reference, an answer');
    end if;
    kept := convert_to((effects_ledger.faithful(given))::text, 'UTF8');
    if length(kept) > 65536 then
      perform effects_ledger.refuse('22023', format('the evidence has %s bytes', length(kept)), 'keep the document elsewhere, and give its digest and where it is');
    end if;
    return jsonb_build_object('bytes', encode(kept, 'hex'),
                              'digest', encode(sha256(convert_to('pg-effects/evidence/1' || chr(10), 'UTF8') || kept), 'hex'));
  end $$;

-- How a resolution settles, unit by unit: like the outcome that it stands for.
create function effects_ledger.settlements_of(about uuid, says text, measured json) returns jsonb language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    given jsonb;
  begin
    if says = 'no_effect' and measured is not null then
      perform effects_ledger.refuse('22023', 'what had no effect has no cost', 'leave cost out');
    end if;
    select coalesce(jsonb_object_agg(c.unit, c.amount::text), '{}') into given
      from effects_ledger.read_budgets(case when measured is null then '[]' else
             (select coalesce(json_agg(json_build_object('unit', m.key, 'limit', m.value)), '[]') from json_each(measured) as m) end) as c;
    return (select coalesce(jsonb_agg(case
        when says = 'no_effect' then jsonb_build_object('unit', unit, 'settled', '0', 'overrun', '0', 'source', 'none')
        when given ? unit then jsonb_build_object('unit', unit, 'settled', least((given ->> unit)::bigint, held)::text,
                                 'overrun', greatest((given ->> unit)::bigint - held, 0)::text, 'source', 'measured')
        else jsonb_build_object('unit', unit, 'settled', held::text, 'overrun', '0', 'source', 'maximum') end), '[]')
      from (select coalesce(c.unit, g.unit) as unit, coalesce(c.reserved, 0) as held
              from (select x.unit, x.reserved from effects_ledger.cost x where x.effect_id = about) as c
              full join (select jsonb_object_keys(given) as unit) as g using (unit)) as u);
  end $$;

-- The effect as a resolution needs it: locked, and open. Raises what stands against it, and returns whether it is uncertain.
create function effects_ledger.lock_open(about uuid) returns boolean language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    standing effects_ledger.effect;
    earlier record;
  begin
    -- In the order of an admission: policies before effects.
    perform from effects_ledger.policy p
      where p.operation is not null and p.policy_id in (select b.policy_id from effects_payload.binding b where b.effect_id = about)
      order by p.policy_id for no key update;
    select * into standing from effects_ledger.effect e where e.effect_id = about for no key update;
    if not found then
      perform effects_ledger.refuse('PE109', format('effect_unknown: there is no effect %s', about), 'audit.effects lists them');
    end if;
    if effects_ledger.is_former(about) then
      perform effects_ledger.refuse('PE110', format('not_unresolved: effect %s is the former ledger''s', about), 'it is for reading only here');
    end if;
    select z.kind, coalesce(y.says, z.says) as says, coalesce(y.by_role, z.by_role) as by_role, coalesce(y.at, z.at) as at into earlier
      from effects_ledger.resolution z left join effects_ledger.resolution_after_risk y using (effect_id) where z.effect_id = about;
    if found and (earlier.kind <> 'risk_accepted' or earlier.says is not null) then
      perform effects_ledger.refuse('PE119', format('already_resolved: effect %s was resolved by %s at %s%s', about, earlier.by_role, earlier.at,
                                      coalesce(', as ' || earlier.says, '')), 'what disagrees with that is submitted as evidence');
    elsif standing.state = 'admitted' and standing.unresolved_since is null and standing.dispatch_deadline > clock_timestamp() then
      perform effects_ledger.refuse('PE110', format('not_unresolved: effect %s may still be being dispatched', about),
                                    format('its window ends at %s', standing.dispatch_deadline));
    elsif standing.state not in ('admitted', 'uncertain') then
      perform effects_ledger.refuse('PE110', format('not_unresolved: effect %s is %s', about, standing.state),
                                    'what disagrees with that is submitted as evidence');
    end if;
    return standing.state = 'uncertain';
  end $$;

-- Records a resolution, and before it that the effect is uncertain where nobody had said so.
create function effects_ledger.record_resolution(about uuid, says text, evidence jsonb, kind text, source text, reason text,
                                                 reference text, settlements jsonb) returns text language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    was_uncertain constant boolean := effects_ledger.lock_open(about);
    item jsonb := jsonb_build_object('effect_id', about, 'via', 'resolve', 'outcome', says, 'evidence', evidence,
      'resolution', kind, 'source', source, 'reason', reason, 'reference', reference, 'settlements', settlements,
      'standing', case when says = 'no_effect' then 'released' else 'settled' end);
  begin
    if not was_uncertain then
      perform effects_ledger.record_outcomes(jsonb_build_array(jsonb_build_object('effect_id', about, 'via', 'resolve',
                'outcome', 'uncertain', 'reason', 'nobody could tell before it was resolved')), null);
    end if;
    return effects_ledger.record_outcomes(jsonb_build_array(item), null) ->> about::text;
  end $$;

create function effects.resolve(effect_id uuid, says text, evidence json, reason text, reference text default null,
                                cost json default null) returns text language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp
  as $$
  #variable_conflict use_column
  declare
    shown jsonb;
  begin
    perform effects_ledger.check_reason(resolve.reason);
    if resolve.says is null or resolve.says not in ('accepted', 'failed', 'no_effect') then
      perform effects_ledger.refuse('22023', format('it says %s', effects_ledger.quoted(resolve.says)), 'say accepted, failed or no_effect');
    elsif length(resolve.reference) not between 1 and 200 then
      perform effects_ledger.refuse('22023', 'a reference has 1 to 200 characters', 'give the recipient''s own id, or none');
    end if;
    shown := effects_ledger.evidence_of(resolve.evidence);
    -- The same resolution again is the same, so that a file of many can be run again.
    if exists (select from (select z.effect_id, z.says, z.source, z.evidence_id from effects_ledger.resolution z union all
                            select y.effect_id, y.says, y.source, y.evidence_id from effects_ledger.resolution_after_risk y) as z
                 join effects_payload.evidence v using (evidence_id)
                where z.effect_id = resolve.effect_id and z.says = resolve.says and z.source = 'operator'
                  and v.digest = decode(shown ->> 'digest', 'hex')) then
      return 'same';
    end if;
    return effects_ledger.record_resolution(resolve.effect_id, resolve.says, shown, null, 'operator', resolve.reason, resolve.reference,
             effects_ledger.settlements_of(resolve.effect_id, resolve.says, resolve.cost));
  end $$;
comment on function effects.resolve is
  'Settles an unresolved effect by evidence: what was seen, by whom, why. Answers resolved, after_risk, or same. cost: {"usd_cents": "4000"}, where it was measured.';

create function effects.accept_risk(effect_id uuid, reason text) returns text language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp
  as $$
  #variable_conflict use_column
  declare
    earlier effects_ledger.resolution;
  begin
    perform effects_ledger.check_reason(accept_risk.reason);
    select * into earlier from effects_ledger.resolution z where z.effect_id = accept_risk.effect_id and z.kind = 'risk_accepted';
    if found then
      if earlier.by_role = effects_ledger.actor_now() and earlier.reason = accept_risk.reason then
        return 'same';
      end if;
      perform effects_ledger.refuse('PE119', format('already_resolved: the risk of effect %s was accepted by %s at %s', earlier.effect_id,
                                      earlier.by_role, earlier.at), 'evidence may still resolve it');
    end if;
    return effects_ledger.record_resolution(accept_risk.effect_id, 'uncertain', null, 'risk_accepted', 'operator', accept_risk.reason, null,
             effects_ledger.settlements_of(accept_risk.effect_id, 'accepted', null));
  end $$;
comment on function effects.accept_risk is
  'Ends a doubt without an answer: the maximum is spent, and the record never says that nothing happened.';

-- The effect that evidence is about, by its key, its id or the recipient's reference.
create function effects_ledger.effect_meant(key text, reference text, effect_id uuid) returns uuid language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  #variable_conflict use_column
  declare
    meant uuid[];
  begin
    if num_nonnulls(effect_meant.key, effect_meant.effect_id) = 0 and effect_meant.reference is null then
      perform effects_ledger.refuse('22023', 'the evidence names no effect', 'give its key, its id or the recipient''s reference');
    end if;
    select array_agg(e.effect_id) into meant
      from effects_ledger.effect e join effects_ledger.request r using (effect_id)
     where (effect_meant.key is null or r.key = effect_meant.key)
       and (effect_meant.effect_id is null or e.effect_id = effect_meant.effect_id)
       and (num_nonnulls(effect_meant.key, effect_meant.effect_id) > 0 or e.reference = effect_meant.reference);
    if meant is null then
      perform effects_ledger.refuse('PE109', 'effect_unknown: no effect is named so', 'audit.effects has keys and references');
    elsif cardinality(meant) > 1 then
      perform effects_ledger.refuse('PE120', format('reference_ambiguous: %s effects have the reference %s', cardinality(meant),
                                      effects_ledger.quoted(effect_meant.reference)), 'name one by its key or id');
    end if;
    return meant[1];
  end $$;

create function effects.submit_evidence(source text, key text, reference text, effect_id uuid, says text, evidence json)
  returns text language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
  as $$
  #variable_conflict use_column
  declare
    acting constant text := effects_ledger.actor_now();
    from_source effects_ledger.source;
    about uuid;
    shown jsonb;
    standing effects_ledger.effect;
    stands text;
    open boolean;
    agrees boolean;
  begin
    select * into from_source from effects_ledger.source s where s.source = submit_evidence.source and s.revoked_at is null for share;
    if not found then
      perform effects_ledger.refuse('42501', format('there is no source %s', effects_ledger.quoted(submit_evidence.source)),
                                    'the owner adds sources');
    elsif from_source.submitted_by is not null and from_source.submitted_by <> acting then
      perform effects_ledger.refuse('42501', format('%s does not submit for the source %s', acting, from_source.source),
                                    format('%s does', from_source.submitted_by));
    elsif submit_evidence.says is null or submit_evidence.says not in ('accepted', 'failed', 'no_effect', 'cost') then
      perform effects_ledger.refuse('22023', format('it says %s', effects_ledger.quoted(submit_evidence.says)),
                                    'say accepted, failed, no_effect or cost');
    end if;
    shown := effects_ledger.evidence_of(submit_evidence.evidence);
    about := effects_ledger.effect_meant(submit_evidence.key, submit_evidence.reference, submit_evidence.effect_id);
    perform from effects_ledger.policy p
      where p.operation is not null and p.policy_id in (select b.policy_id from effects_payload.binding b where b.effect_id = about)
      order by p.policy_id for no key update;
    select * into strict standing from effects_ledger.effect e where e.effect_id = about for no key update;
    if exists (select from effects_payload.evidence v where v.effect_id = about and v.source = from_source.source
                and v.says = submit_evidence.says and v.digest = decode(shown ->> 'digest', 'hex')) then
      return 'same';
    elsif submit_evidence.says = 'cost' then
      return effects_ledger.charge_beyond(about, from_source, shown, submit_evidence.evidence, submit_evidence.reference);
    end if;
    select coalesce(y.says, z.says, nullif(o.outcome, 'uncertain')),
           standing.state = 'admitted' and coalesce(standing.unresolved_since, standing.dispatch_deadline) <= clock_timestamp()
             or standing.state = 'uncertain' and (z.effect_id is null or z.kind = 'risk_accepted' and y.effect_id is null)
      into stands, open
      from effects_ledger.effect e
      left join effects_ledger.outcome o using (effect_id)
      left join effects_ledger.resolution z on z.effect_id = e.effect_id
      left join effects_ledger.resolution_after_risk y on y.effect_id = e.effect_id
     where e.effect_id = about;
    if open and from_source.authoritative then
      return effects_ledger.record_resolution(about, submit_evidence.says, shown, null, from_source.source, null, submit_evidence.reference,
               effects_ledger.settlements_of(about, submit_evidence.says, null));
    end if;
    -- Of what was never admitted nothing can have happened, by us; whoever says it did disagrees.
    agrees := coalesce(stands, case when standing.state in ('requested', 'prepared', 'declined') then 'no_effect' end) = submit_evidence.says;
    perform effects_ledger.keep_evidence(about, from_source.source, submit_evidence.says, agrees, submit_evidence.reference, shown);
    return case agrees when true then 'agrees' when false then 'contradicts' else 'kept' end;
  end $$;
comment on function effects.submit_evidence is
  'Keeps what a registered source says about an effect. It resolves an open effect where the source is authoritative, and contradicts any. Answers resolved, after_risk, agrees, contradicts, kept, charged or same.';

-- Keeps a piece of evidence beside what stands, with its event.
create function effects_ledger.keep_evidence(about uuid, source text, says text, agrees boolean, reference text, shown jsonb)
  returns void language plpgsql set search_path = pg_catalog, pg_temp
  as $$
  begin
    insert into effects_payload.evidence (effect_id, source, submitted_by, says, agrees, reference, bytes, digest)
    values (about, source, effects_ledger.actor_now(), says, agrees, reference, decode(shown ->> 'bytes', 'hex'),
            decode(shown ->> 'digest', 'hex'));
    perform effects_ledger.note_event(about, case when agrees is false then 'contradicted' else 'evidence' end,
      jsonb_strip_nulls(jsonb_build_object('source', source, 'says', says, 'reference', reference, 'evidence_digest', shown ->> 'digest')));
    if agrees is false then
      perform effects_ledger.give_notice(array[about], 'contradiction');
    end if;
  end $$;

-- Evidence of cost: what is beyond the settled cost is overrun, whatever the outcome says. Where nothing is settled yet it is
-- kept for whoever settles.
create function effects_ledger.charge_beyond(about uuid, from_source effects_ledger.source, shown jsonb, given json, reference text)
  returns text language plpgsql set search_path = pg_catalog, pg_temp
  as $$
  declare
    lineage constant uuid[] := (select t.lineage from effects_ledger.request r join effects_ledger.task t using (task_id) where r.effect_id = about);
    measured jsonb;
    beyond record;
    charged boolean := false;
  begin
    if json_typeof(given) <> 'object' or json_typeof(given -> 'cost') is distinct from 'object' then
      perform effects_ledger.refuse('22023', 'the evidence of cost has no amounts', 'give {"cost": {"usd_cents": "4200"}}, the whole cost by unit');
    end if;
    select coalesce(jsonb_object_agg(c.unit, c.amount::text), '{}') into measured
      from effects_ledger.read_budgets((select coalesce(json_agg(json_build_object('unit', m.key, 'limit', m.value)), '[]')
                                          from json_each(given -> 'cost') as m)) as c;
    perform effects_ledger.keep_evidence(about, from_source.source, 'cost', null, reference, shown);
    if from_source.authoritative then
      perform from effects_ledger.budget b where b.task_id = any (lineage) order by b.task_id, b.unit for no key update;
      for beyond in
        select c.unit, (measured ->> c.unit)::bigint - c.settled - c.overrun as amount from effects_ledger.cost c
         where c.effect_id = about and c.standing <> 'reserved' and measured ? c.unit
           and (measured ->> c.unit)::numeric > c.settled::numeric + c.overrun
      loop
        update effects_ledger.cost c set overrun = c.overrun + beyond.amount where c.effect_id = about and c.unit = beyond.unit;
        update effects_ledger.budget b set overrun = least(b.overrun::numeric + beyond.amount, 9223372036854775807)::bigint
         where b.task_id = any (lineage) and b.unit = beyond.unit;
        charged := true;
      end loop;
    end if;
    return case when charged then 'charged' else 'kept' end;
  end $$;

revoke all on all functions in schema effects, effects_ledger from public;
