-- Followers: a new effect that tries an earlier one again (protocol, sections 3 and 6).
--
-- Invariants established here:
--   * what is followed was declined, failed, had no effect, or is resolved so; what a person took the risk of, or what was
--     reached by an unknown hand, only an operator follows, with a reason;
--   * an effect has one follower at most that was not declined, so a line of followers never branches;
--   * whoever follows updates the row of what is followed, which the follower's admission locks, and so does all evidence;
--   * nothing follows by itself what is open, uncertain or cancelled, nor more often than was allowed.

alter table effects_ledger.request
  add constraint "a follower follows another effect" check (follows <> effect_id),
  add constraint "only a follower is called, counted and explained so" check
    (follows is not null or called is null and followed = 0 and follow_reason is null),
  add constraint "it follows by itself 0 to 100 times" check (follow_max between 0 and 100 and followed between 0 and 100);
create index request_follows on effects_ledger.request (follows) where follows is not null;

-- What effects follow, directly and through others.
create function effects_ledger.line_above(ids uuid[]) returns table (effect_id uuid, predecessor uuid) language sql stable
  set search_path = pg_catalog, pg_temp
  as $$
    with recursive line as (
      select r.effect_id, r.follows as predecessor
        from unnest(ids) as wanted(effect_id) join effects_ledger.request r using (effect_id) where r.follows is not null
      union all
      select l.effect_id, r.follows from line l join effects_ledger.request r on r.effect_id = l.predecessor
       where r.follows is not null
    )
    select l.effect_id, l.predecessor from line l
  $$;

-- What stands against following an effect, whatever it was recorded as: evidence that it happened, or evidence that
-- disagrees. What a resolution knew of does not count again.
create function effects_ledger.said_against(about uuid) returns text language sql stable
  set search_path = pg_catalog, pg_temp
  as $$
    select case
        when coalesce(y.says, z.says, o.outcome) = 'accepted'
          or exists (select from effects_payload.evidence v where v.effect_id = about and v.says = 'accepted'
                        and (not v.agrees or v.at > coalesce(y.at, z.at))) then 'accepted'
        when exists (select from effects_payload.evidence v where v.effect_id = about and not v.agrees) then 'contradicted' end
      from (select about) as a
      left join effects_ledger.outcome o on o.effect_id = about
      left join effects_ledger.resolution z on z.effect_id = about
      left join effects_ledger.resolution_after_risk y on y.effect_id = about
  $$;

-- Of effects, those with something against them in what they follow. Null where none has.
create function effects_ledger.predecessors_against(ids uuid[]) returns jsonb language sql stable
  set search_path = pg_catalog, pg_temp
  as $$
    select jsonb_object_agg(x.effect_id, jsonb_build_object('effect_id', x.predecessor, 'said', x.said))
      from (select distinct on (l.effect_id) l.effect_id, l.predecessor, a.said
              from effects_ledger.line_above(ids) as l
              cross join lateral (select effects_ledger.said_against(l.predecessor) as said) as a
             where a.said is not null order by l.effect_id, a.said, l.predecessor) as x
  $$;

-- The places that a follower of an effect takes: the effect's own and, while what it finds there was declined, the one before.
create function effects_ledger.places_of(about uuid) returns uuid[] language sql stable
  set search_path = pg_catalog, pg_temp
  as $$
    with recursive place as (
      select e.effect_id, e.state from effects_ledger.effect e where e.effect_id = about
      union all
      select e.effect_id, e.state from place p
        join effects_ledger.request r on r.effect_id = p.effect_id
        join effects_ledger.effect e on e.effect_id = r.follows
       where p.state = 'declined'
    )
    select array_agg(p.effect_id order by p.effect_id) from place p
  $$;

-- Updates the rows that a follower's request is decided from: one of two comes second, and one with an older snapshot fails.
create function effects_ledger.lock_places(about uuid) returns void language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    places constant uuid[] := effects_ledger.places_of(about);
  begin
    perform from effects_ledger.effect e where e.effect_id = any (places) order by e.effect_id for no key update;
    update effects_ledger.effect e set seq = e.seq where e.effect_id = any (places);
  end $$;

-- Why an effect may not be followed, in words; null where it may. Its rows are locked.
create function effects_ledger.not_to_be_followed(about uuid, by_operator boolean, reason text) returns text language sql stable
  set search_path = pg_catalog, pg_temp
  as $$
    select case
        when effects_ledger.is_former(about) then 'is the former ledger''s, for reading only'
        when e.state = 'accepted' then 'is accepted'
        when against.said = 'accepted' then 'is in a line of which there is evidence that it happened'
        when against.said = 'contradicted' then 'is in a line of which the evidence disagrees'
        when e.state in ('declined', 'failed', 'no_effect') or coalesce(y.says, z.says) in ('failed', 'no_effect') then null
        when e.state = 'uncertain' and z.effect_id is not null then case
          when by_operator and not_to_be_followed.reason is not null then null
          else 'was ' || case z.kind when 'reached' then 'reached by an unknown hand' else 'given up by accepting its risk' end
               || ': only an operator follows it, with a reason' end
        when e.state in ('admitted', 'uncertain') then 'is ' || e.state || ', and nobody knows whether it happened'
        else 'is ' || e.state end
      from effects_ledger.effect e
      left join effects_ledger.resolution z on z.effect_id = about
      left join effects_ledger.resolution_after_risk y on y.effect_id = about
      cross join lateral (
        select min(s.said) as said
          from (select about as predecessor union all select l.predecessor from effects_ledger.line_above(array[about]) as l) as p
          cross join lateral (select effects_ledger.said_against(p.predecessor) as said) as s) as against
     where e.effect_id = about
  $$;

-- Locks what would be followed and refuses what may not be.
create function effects_ledger.check_follows(about uuid, by_operator boolean, reason text) returns void language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    why text;
    earlier record;
  begin
    perform effects_ledger.lock_places(about);
    why := effects_ledger.not_to_be_followed(about, by_operator, reason);
    if why is not null then
      perform effects_ledger.refuse('PE107', format('follows_not_final: effect %s %s', about, why),
                                    'what was declined, failed or had no effect is followed, or is resolved so first');
    end if;
    select f.effect_id, e.state into earlier from effects_ledger.follower f join effects_ledger.effect e using (effect_id)
     where f.predecessor = any (effects_ledger.places_of(about)) limit 1;
    if found then
      perform effects_ledger.refuse('PE126', format('followed_already: effect %s is followed by %s, which is %s', about,
                                      earlier.effect_id, earlier.state), 'an effect has one follower; follow that one, once it may be');
    end if;
  end $$;

-- What a request that follows an effect has of it. @see effects_ledger.line
create function effects_ledger.line_behind(about uuid, follow_max int, acting text, in_task uuid) returns effects_ledger.line
  language plpgsql set search_path = pg_catalog, pg_temp
  as $$
  declare
    line effects_ledger.line;
    followed effects_ledger.request;
  begin
    line.follow_max := follow_max;
    if about is not null then
      select * into followed from effects_ledger.request r where r.effect_id = about;
      if not found or followed.actor <> acting then
        perform effects_ledger.refuse('PE109', format('effect_unknown: there is no effect %s of this actor''s', about),
                                      'follow an effect of the same actor');
      elsif followed.task_id <> in_task then
        perform effects_ledger.refuse('PE107', format('follows_not_final: effect %s is another task''s', about),
                                      'request under the task of what it follows');
      end if;
      perform effects_ledger.check_follows(about, false, null);
      line.follows := about;
      line.called := followed.known_as;
    end if;
    return line;
  end $$;

-- Takes the places of a follower that is written, and says so in the record of what it follows.
create function effects_ledger.take_places(taker uuid, follows uuid, by_worker text) returns void language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    insert into effects_ledger.follower (predecessor, effect_id)
    select p.place, taker from unnest(effects_ledger.places_of(follows)) as p(place);
    perform effects_ledger.note_event(follows, 'followed', jsonb_build_object('follower', taker), by_worker);
  exception when unique_violation then
    perform effects_ledger.refuse('PE126', format('followed_already: effect %s is followed by another one', follows),
                                  'an effect has one follower; follow that one, once it may be');
  end $$;

-- Requests the follower of an effect: the same operation, input, task and actor, for once more.
create function effects_ledger.request_follower(followed effects_ledger.request, line effects_ledger.line,
                                                not_before timestamptz, expires_at timestamptz) returns uuid language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    moment constant timestamptz := clock_timestamp();
    ledger effects_ledger.identity;
    kind effects_ledger.operation;
    asked effects_ledger.checked;
  begin
    select * into strict ledger from effects_ledger.identity;
    kind := effects_ledger.newest_version(followed.operation, ledger."strict");
    if followed.run is not null or kind.operation is null then
      perform effects_ledger.refuse('PE107', format('follows_not_final: effect %s was run inline', followed.effect_id), 'its host tries it again');
    end if;
    asked := row(1, effects_ledger.new_id(), false, (select i.given from effects_payload.input i where i.effect_id = followed.effect_id),
      followed.given_digest, followed.task_id, null, followed.actor, followed.notify, not_before,
      coalesce(expires_at, moment + make_interval(secs => (kind.contract ->> 'expiresAfterMs')::numeric / 1000.0)),
      followed.priority, followed.on_denial, followed.trace, case when line.followed > 0 then followed.invocation end,
      line)::effects_ledger.checked;
    if asked.input is null then
      perform effects_ledger.refuse('PE107', format('follows_not_final: the input of effect %s was purged', followed.effect_id),
                                    'request it anew, with its input');
    end if;
    return (effects_ledger.write_requests(array[asked], ledger, kind, moment))[1];
  end $$;

create function effects.follow(effect_id uuid, reason text default null) returns uuid language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp
  as $$
  #variable_conflict use_column
  declare
    operating constant boolean := (select i.role_prefix is null from effects_ledger.identity i) or effects_ledger.has_role('operator');
    followed effects_ledger.request;
    within effects_ledger.task;
    line effects_ledger.line;
    own boolean;
    still uuid;
  begin
    if follow.reason is not null then
      perform effects_ledger.check_reason(follow.reason);
    end if;
    select * into followed from effects_ledger.request r where r.effect_id = follow.effect_id;
    own := followed.actor = effects_ledger.actor_now() or effects_ledger.spoken_for(followed.actor) is not null;
    if followed.effect_id is null or not own and not operating then
      perform effects_ledger.refuse('PE109', format('effect_unknown: there is no effect %s of this actor''s', follow.effect_id),
                                    'an operator follows another one''s');
    end if;
    -- Of an actor's own, in its own name; of another one's, an operator repeats it in the name and by the rights it had.
    if own and (not operating or effects_ledger.may_serve(followed.actor, nullif(effects_ledger.actor_now(), followed.actor))) then
      perform effects_ledger.acting(effects_ledger.spoken_for(followed.actor));
    else
      line.requested_by := session_user;
      line.spoken_by := followed.spoken_by;
    end if;
    perform effects_ledger.lock_places(followed.effect_id);
    select f.effect_id into still
      from effects_ledger.follower f join effects_ledger.effect e using (effect_id)
     where f.predecessor = followed.effect_id
       and exists (select from effects_ledger.live v where v.effect_id = f.effect_id);
    if found then
      return still; -- it is being tried again, by whomever
    end if;
    perform effects_ledger.check_follows(followed.effect_id, operating, follow.reason);
    select * into strict within from effects_ledger.task t where t.task_id = followed.task_id;
    if within.ended_at is not null or within.revoked_at is not null or within.deadline <= clock_timestamp() then
      perform effects_ledger.refuse('PE108', format('task_ended: the task %s has ended', effects_ledger.quoted(within.name)),
                                    'request it under a live task');
    end if;
    line.follows := followed.effect_id;
    line.follow_max := followed.follow_max;
    line.called := followed.known_as;
    line.reason := follow.reason;
    line.by_role := effects_ledger.actor_now();
    return effects_ledger.request_follower(followed, line, null, null);
  end $$;
comment on function effects.follow is
  'Tries an effect again that was declined, failed or had no effect, or is resolved so: a new effect of the same operation, input, task and actor, whose id it returns. What is being tried again already is returned. After an accepted risk an operator gives a reason.';

-- The end of an effect's line: its follower's follower, or itself.
create function effects_ledger.newest_of(about uuid) returns uuid language sql stable
  set search_path = pg_catalog, pg_temp
  as $$
    with recursive line as (
      select about as effect_id, 0 as place
      union all
      select f.effect_id, l.place + 1 from line l join effects_ledger.follower f on f.predecessor = l.effect_id
    )
    select l.effect_id from line l order by l.place desc limit 1
  $$;

-- Requests what follows by itself, in the transaction that records the outcome (protocol, section 6). Where it does not, the
-- record says why, and the outcome stands all the same.
create function effects_ledger.follow_at_once(items jsonb, worker text) returns void language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    wish record;
    followed effects_ledger.request;
    line effects_ledger.line;
    at_most int;
    at_moment timestamptz;
    why text;
  begin
    for wish in select * from jsonb_to_recordset(items) as i(effect_id uuid, again_after_ms bigint) order by i.effect_id loop
      select * into strict followed from effects_ledger.request r where r.effect_id = wish.effect_id;
      select coalesce(followed.follow_max, (o.contract ->> 'followMax')::int, case when o.protected or i."strict" then 0 else 5 end)
        into at_most from effects_ledger.operation o, effects_ledger.identity i
       where (o.operation, o.version) = (followed.operation, followed.version);
      at_moment := clock_timestamp() + make_interval(secs => wish.again_after_ms / 1000.0);
      why := case
        when exists (select from effects_ledger.cancel_requested(array[wish.effect_id])) then 'cancelled'
        when followed.followed >= at_most then 'follow_max'
        when at_moment >= followed.expires_at then 'expires'
        else effects_ledger.not_to_be_followed(wish.effect_id, false, null) end;
      if why is null then
        begin
          perform effects_ledger.lock_places(wish.effect_id);
          line := row(wish.effect_id, followed.follow_max, followed.followed + 1, followed.known_as, null, followed.requested_by,
                      followed.spoken_by, effects_ledger.actor_now(), worker)::effects_ledger.line;
          perform effects_ledger.request_follower(followed, line, at_moment, followed.expires_at);
        exception when others then
          if sqlstate ~ '^(40|57|08|53|55P)' then
            raise; -- a conflict, or a server that goes away: the outcome is recorded again, with its follower
          end if;
          why := sqlstate || ' ' || left(sqlerrm, 200);
        end;
      end if;
      if why is not null then
        perform effects_ledger.note_event(wish.effect_id, 'not_followed', jsonb_strip_nulls(jsonb_build_object('reason', why,
          'again_after_ms', wish.again_after_ms, 'followed', nullif(followed.followed, 0), 'follow_max', at_most)), worker);
      end if;
    end loop;
  end $$;

revoke all on all functions in schema effects, effects_ledger from public;
