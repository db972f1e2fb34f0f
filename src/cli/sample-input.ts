/**
 * An input made up from its JSON Schema, so that an example can be tried as it is printed. Addresses in it lead nowhere
 * (`.invalid`, RFC 2606): whoever tries it should not reach a stranger.
 */
import type { RunningOperation } from "../runtime.ts";
import { inputSchema } from "../worker/operations.ts";

/** The parts of a JSON Schema that are followed here. */
interface Schema {
  readonly type?: unknown;
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly default?: unknown;
  readonly format?: unknown;
  readonly minLength?: unknown;
  readonly minimum?: unknown;
  readonly exclusiveMinimum?: unknown;
  readonly minItems?: unknown;
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly allOf?: readonly Schema[];
}

const TEXT_BY_FORMAT: Readonly<Record<string, string>> = {
  uri: "https://recipient.invalid/",
  email: "somebody@recipient.invalid",
  uuid: "00000000-0000-4000-8000-000000000000",
  date: "2030-01-01",
  "date-time": "2030-01-01T00:00:00Z",
};

/** Deeper schemas are not followed: nobody types such an example. */
const DEPTH_MAX = 8;

/** An input that the operation's own schema takes, or null where none could be made up. */
export async function sampleInput({ operation }: RunningOperation): Promise<unknown> {
  const { name, input } = operation.definition;
  const sample = sampleValue(inputSchema(name, input) as Schema, 1);
  return (await input.safeParseAsync(sample)).success ? sample : null;
}

function sampleValue(schema: Schema, depth: number): unknown {
  if (depth > DEPTH_MAX) return null;
  if (schema.const !== undefined) return schema.const;
  if (schema.default !== undefined) return schema.default;
  if (schema.enum) return schema.enum[0];
  const [alternative] = schema.anyOf ?? schema.oneOf ?? schema.allOf ?? [];
  if (alternative) return sampleValue(alternative, depth + 1);
  switch (schema.type) {
    case "object": {
      const properties = Object.entries(schema.properties ?? {});
      const wanted = properties.filter(([name]) => schema.required?.includes(name));
      return Object.fromEntries(wanted.map(([name, inner]) => [name, sampleValue(inner, depth + 1)]));
    }
    case "array":
      return Array.from({ length: numberOr(schema.minItems, 0) }, () => sampleValue(schema.items ?? {}, depth + 1));
    case "integer":
    case "number":
      return Math.max(1, numberOr(schema.minimum, 1), numberOr(schema.exclusiveMinimum, 0) + 1);
    case "boolean":
      return true;
    case "string":
      return TEXT_BY_FORMAT[String(schema.format)] ?? "example".padEnd(numberOr(schema.minLength, 0), ".");
    default:
      return null;
  }
}

function numberOr(value: unknown, otherwise: number): number {
  return typeof value === "number" && value <= 1_000 ? value : otherwise;
}
