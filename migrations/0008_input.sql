-- Inputs as applications give them: what is refused, in which words.
--
-- Invariants established here:
--   * an input is one that JSON carries faithfully: no repeated key, no number a double would change, no broken string;
--   * an amount is an integer within its range, whichever way it is written.

-- Raises an error as this API words it: a code of class PE (or a standard one), what happened, what to do.
create function effects_ledger.refuse(code text, message text, hint text) returns void language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    raise exception using errcode = code, message = message, hint = hint;
  end $$;

-- A name as a message shows it: quoted, or null.
create function effects_ledger.quoted(name text) returns text language sql immutable
  set search_path = pg_catalog, pg_temp
  as $$ select coalesce(to_json(name)::text, 'null') $$;

-- The value with every number as a double holds it; refuses, with the path, what JSON cannot carry faithfully.
create function effects_ledger.faithful_value(given json, path text, depth int) returns jsonb language plpgsql stable
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    kind constant text := json_typeof(given);
    shown constant text := case when path = '' then 'the input' else path end;
    literal text;
    repeated text;
    number numeric;
  begin
    if depth > 64 then
      perform effects_ledger.refuse('PE102', 'input_unfaithful: ' || left(shown, 200) || ' is nested deeper than 64', 'flatten the input');
    end if;
    if kind = 'object' then
      select e.key into repeated from json_each(given) as e group by e.key having count(*) > 1 limit 1;
      if found then
        perform effects_ledger.refuse('PE102', format('input_unfaithful: %s repeats the key %s', shown, to_json(repeated)),
                                      'give each key once');
      end if;
      return coalesce((select jsonb_object_agg(e.key, effects_ledger.faithful_value(e.value,
               path || '/' || replace(replace(e.key, '~', '~0'), '/', '~1'), depth + 1)) from json_each(given) as e), '{}');
    elsif kind = 'array' then
      return coalesce((select jsonb_agg(effects_ledger.faithful_value(e.value, path || '/' || (e.place - 1), depth + 1)
                                        order by e.place)
                         from json_array_elements(given) with ordinality as e(value, place)), '[]');
    elsif kind = 'number' then
      literal := given #>> '{}';
      if literal ~ '[eE][+-]?0*[1-9][0-9]{3,}$' or length(literal) > 400 then
        perform effects_ledger.refuse('PE102', 'input_unfaithful: ' || shown || ' is a number no double holds', 'write it as a string');
      end if;
      number := literal::numeric;
      if abs(number) > 9007199254740991 then
        perform effects_ledger.refuse('PE102', 'input_unfaithful: ' || shown || ' is beyond 2^53 - 1', 'write it as a string');
      elsif number <> 0 and abs(number) < 2.3e-308 then
        perform effects_ledger.refuse('PE102', 'input_unfaithful: ' || shown || ' is a number no double holds', 'write it as a string');
      end if;
      return to_jsonb(case when number = 0 then 0 else number::float8::text::numeric end);
    end if;
    return given::jsonb;
  end $$;

-- Where a string or key of a value holds U+E000, the mark that `faithful` puts in for what cannot be stored.
create function effects_ledger.marked_path(given jsonb, path text) returns text language plpgsql stable
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    mark constant text := chr(57344);
    entry record;
    found_path text;
  begin
    if jsonb_typeof(given) = 'string' then
      return case when strpos(given #>> '{}', mark) > 0 then case when path = '' then 'the input' else path end end;
    elsif jsonb_typeof(given) = 'object' then
      for entry in select e.key, e.value, path || '/' || replace(replace(e.key, '~', '~0'), '/', '~1') as place
                     from jsonb_each(given) as e order by e.key loop
        found_path := case when strpos(entry.key, mark) > 0 then 'a key of ' || coalesce(nullif(path, ''), 'the input')
                           else effects_ledger.marked_path(entry.value, entry.place) end;
        exit when found_path is not null;
      end loop;
    elsif jsonb_typeof(given) = 'array' then
      for entry in select e.value, e.place from jsonb_array_elements(given) with ordinality as e(value, place) loop
        found_path := effects_ledger.marked_path(entry.value, path || '/' || (entry.place - 1));
        exit when found_path is not null;
      end loop;
    end if;
    return found_path;
  end $$;

create function effects_ledger.faithful(given json) returns jsonb language plpgsql stable
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    if given is null then
      perform effects_ledger.refuse('PE102', 'input_unfaithful: the input is null', 'give a JSON value');
    elsif octet_length(given::text) > 65536 then
      perform effects_ledger.refuse('PE102', format('input_unfaithful: the input has %s bytes, at most 65536 are taken',
                                    octet_length(given::text)), 'keep large content elsewhere and give its reference');
    end if;
    return effects_ledger.faithful_value(given, '', 1);
  exception
    when untranslatable_character or invalid_text_representation then
      -- json_each resolves the escapes of a whole object at once, so the place is looked for in a copy: pairs that are
      -- whole become a letter, what is left of U+0000 and surrogates becomes a mark.
      perform effects_ledger.refuse('PE102', format('input_unfaithful: %s holds U+0000 or half a surrogate pair',
        effects_ledger.marked_path(regexp_replace(regexp_replace(given::text,
          '(?<!\\)((?:\\\\)*)\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}', '\1x', 'g'),
          '(?<!\\)((?:\\\\)*)\\u(?:0000|[dD][89a-fA-F][0-9a-fA-F]{2})', '\1\\ue000', 'g')::jsonb, '')), 'remove it');
      return null;
  end $$;

-- The first path at which two values differ, as a JSON pointer.
create function effects_ledger.first_difference(a jsonb, b jsonb, path text) returns text language plpgsql stable
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    place text;
  begin
    if a = b then
      return null;
    elsif jsonb_typeof(a) = 'object' and jsonb_typeof(b) = 'object' then
      select min(k.key) into place from (select jsonb_object_keys(a) union select jsonb_object_keys(b)) as k(key)
        where a -> k.key is distinct from b -> k.key;
      path := path || '/' || replace(replace(place, '~', '~0'), '/', '~1');
      return coalesce(effects_ledger.first_difference(a -> place, b -> place, path), path);
    end if;
    return path;
  end $$;

-- The earlier effect of a name, if this request is the same one; else PE104 with what differs.
create function effects_ledger.same_request(earlier effects_ledger.request, operation text, given jsonb,
                                            given_digest bytea, acting text, follows uuid) returns uuid language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    differs text;
  begin
    differs := case
      when earlier.operation <> operation then 'operation'
      when earlier.actor <> acting then 'actor'
      when earlier.follows is distinct from follows then 'follows'
      when earlier.given_digest <> given_digest then
        'input' || coalesce(effects_ledger.first_difference((select i.given::jsonb from effects_payload.input i
                              where i.effect_id = earlier.effect_id), given, ''), '') end;
    if differs is not null then
      perform effects_ledger.refuse('PE104', format('name_conflict: the name %s is another request''s; %s differs',
                                    effects_ledger.quoted(earlier.name), differs), 'use the same request, or another name');
    end if;
    return earlier.effect_id;
  end $$;

-- Budgets as an application gives them: [{"unit": "usd_cents", "limit": "10000"}], limits as integers or digits.
create function effects_ledger.read_budgets(budgets json) returns table (unit text, amount bigint) language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  #variable_conflict use_column
  declare
    entry record;
    named text[] := '{}';
  begin
    if budgets is null or json_typeof(budgets) <> 'array' then
      perform effects_ledger.refuse('22023', 'budgets is not an array', 'give [{"unit": "usd_cents", "limit": "10000"}]');
    end if;
    for entry in select e.value, json_typeof(e.value -> 'limit') as kind, e.value ->> 'limit' as digits,
                        e.value ->> 'unit' as named
                   from json_array_elements(budgets) as e(value)
    loop
      if entry.named is null or entry.named !~ '^[a-z][a-z0-9_]{0,31}$' then
        perform effects_ledger.refuse('22023', format('the unit %s is refused', effects_ledger.quoted(entry.named)),
                                      'a unit is a lower-case word of at most 32 characters');
      elsif coalesce(entry.kind not in ('number', 'string') or entry.digits !~ '^[0-9]{1,19}$'
                     or entry.digits::numeric > case entry.kind when 'number' then 9007199254740991 else 9223372036854775807 end,
                     true) then
        perform effects_ledger.refuse('22023', format('the limit of %s is refused: %s', entry.named,
                                        coalesce(entry.value -> 'limit', 'null')::text),
                                      'a limit is an integer from 0, beyond 2^53 - 1 as digits in a string');
      end if;
      if entry.named = any (named) then
        perform effects_ledger.refuse('22023', format('the unit %s is given twice', entry.named), 'give each unit one limit');
      end if;
      named := named || entry.named;
      unit := entry.named;
      amount := entry.digits::bigint;
      return next;
    end loop;
  end $$;
