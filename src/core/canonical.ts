/**
 * Canonical bytes (RFC 8785) of values that JSON carries faithfully. Anything else is refused with the path to it, never
 * coerced: a value that JSON would quietly change must not become part of a binding.
 */
import canonicalize from "canonicalize";
import { LedgerError } from "./error.ts";

/** Deeper nesting is refused: it is never a request, and recursion over it is a risk. */
export const DEPTH_MAX = 64;

/**
 * The RFC 8785 serialisation of a value.
 * @throws LedgerError `input_unfaithful` with the JSON pointer of what JSON cannot carry: undefined, holes, NaN and
 *   infinities, integers beyond 2^53 - 1, bigint, broken or NUL-holding strings, dates, maps, boxed values, class
 *   instances, `toJSON`, symbols, nesting beyond DEPTH_MAX.
 */
export function canonicalText(value: unknown): string {
  checkFaithful(value, "", 1);
  const text = canonicalize(value);
  if (text === undefined) throw unfaithful("", "has no JSON form");
  return text;
}

/** `canonicalText` as UTF-8. */
export function canonicalBytes(value: unknown): Buffer {
  return Buffer.from(canonicalText(value), "utf8");
}

function checkFaithful(value: unknown, path: string, depth: number): void {
  if (depth > DEPTH_MAX) throw unfaithful(path, `is nested deeper than ${DEPTH_MAX}`);
  switch (typeof value) {
    case "boolean":
      return;
    case "string":
      checkString(value, path);
      return;
    case "number":
      if (!Number.isFinite(value)) throw unfaithful(path, `is ${value}`);
      if (Math.abs(value) > Number.MAX_SAFE_INTEGER) throw unfaithful(path, "is beyond 2^53 - 1");
      return;
    case "object":
      if (value === null) return;
      if (Array.isArray(value)) checkArray(value, path, depth);
      else checkObject(value, path, depth);
      return;
    default:
      throw unfaithful(path, `is ${typeof value}`);
  }
}

function checkString(text: string, path: string): void {
  if (!text.isWellFormed()) throw unfaithful(path, "holds half a surrogate pair");
  if (text.includes("\0")) throw unfaithful(path, "holds U+0000");
}

function checkArray(array: readonly unknown[], path: string, depth: number): void {
  if (Object.getPrototypeOf(array) !== Array.prototype) throw unfaithful(path, "is not a plain array");
  // Own keys in ascending order, then `length`: anything else is a hole or an extra property.
  const keys = Reflect.ownKeys(array);
  if (keys.length !== array.length + 1) throw unfaithful(path, "is an array with holes or properties");
  for (let place = 0; place < array.length; place++) {
    const element = Object.getOwnPropertyDescriptor(array, place);
    if (keys[place] !== String(place) || !element) throw unfaithful(path, "is an array with holes or properties");
    if (element.get || element.set) throw unfaithful(`${path}/${place}`, "is computed");
    checkFaithful(element.value, `${path}/${place}`, depth + 1);
  }
}

function checkObject(object: object, path: string, depth: number): void {
  const prototype = Object.getPrototypeOf(object);
  if (prototype !== Object.prototype && prototype !== null) {
    throw unfaithful(path, `is a ${object.constructor?.name ?? "class instance"}, not a plain object`);
  }
  for (const key of Reflect.ownKeys(object)) {
    if (typeof key === "symbol") throw unfaithful(path, "has a symbol as a key");
    const place = `${path}/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`;
    const property = Object.getOwnPropertyDescriptor(object, key);
    if (!property?.enumerable || property.get || property.set) throw unfaithful(place, "is hidden or computed");
    checkString(key, place);
    checkFaithful(property.value, place, depth + 1);
  }
}

function unfaithful(path: string, what: string): LedgerError {
  const where = path === "" ? "the value" : path.slice(0, 200).toWellFormed();
  return new LedgerError("input_unfaithful", `${where} ${what}`, {
    hint: "give a value that JSON carries as it is; write large numbers, dates and bytes as strings",
  });
}
