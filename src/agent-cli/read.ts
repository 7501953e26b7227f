import { isObject, type JsonObject } from '../json.ts';

/** Members of an object that came from outside, read without trust: what is not there is empty. */
export const str = (value: unknown, otherwise = ''): string =>
  typeof value === 'string' ? value : otherwise;

export const record = (value: unknown): JsonObject => (isObject(value) ? value : {});

export const list = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

export const texts = (value: unknown): readonly string[] =>
  list(value).filter((item) => typeof item === 'string');
