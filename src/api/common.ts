import { Type, type Static, type TObject, type TProperties, type TSchema } from 'typebox';

/** A lower-case UUID, version 7 where it is one of ours. */
export const Uuid = Type.String({ format: 'uuid' });
/** RFC 3339, UTC, milliseconds, `Z`. */
export const Time = Type.String({ format: 'date-time' });
/** A count of micro-US-dollars as a string. */
export const Money = Type.String({ pattern: '^(0|[1-9][0-9]{0,17})$' });

/** The same, or null: absent values are null, not missing. */
export const nullable = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()]);

/** A schema that stands under its own name in the OpenAPI document. */
export const named = <T extends TProperties>(title: string, properties: T, description?: string): TObject<T> =>
  Type.Object(properties, { title, additionalProperties: false, ...(description ? { description } : {}) });

/** A request body: only what is named may be sent. */
export const input = <T extends TProperties>(title: string, properties: T) =>
  Type.Object(properties, { title, additionalProperties: false });

/** At most 16 string pairs; keys of 1..64 and values of at most 512 characters. */
export const Metadata = Type.Record(Type.String({ pattern: '^[\\s\\S]{1,64}$' }), Type.String({ maxLength: 512 }), {
  maxProperties: 16,
  additionalProperties: false,
});
export type Metadata = Static<typeof Metadata>;

/** What users may call a thing: 1..120 characters, not only white space. */
export const Name = Type.String({ minLength: 1, maxLength: 120, pattern: '^[^\\u0000]*[^\\s\\u0000][^\\u0000]*$' });

/** The four fields that every resource has. */
export const resource = {
  id: Uuid,
  organization_id: Uuid,
  created_at: Time,
  updated_at: Time,
};

/** The page envelope: both properties, nothing else (service.md section 2). */
export const page = <T extends TSchema>(item: T) =>
  Type.Object(
    { data: Type.Array(item), next_cursor: nullable(Type.String()) },
    { additionalProperties: false, title: `${(item as { title?: string }).title ?? 'Item'}Page` },
  );
export interface Page<T> {
  data: T[];
  next_cursor: string | null;
}

/** An error that a resource carries: a run's, an operation's. */
export const ResourceError = named('ResourceError', {
  code: Type.String(),
  message: Type.String(),
  retryable: Type.Boolean(),
  details: Type.Record(Type.String(), Type.Unknown()),
});
export type ResourceError = Static<typeof ResourceError>;

export const paging = {
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 200, default: 50, description: 'How many, at most.' })),
  cursor: Type.Optional(Type.String({ description: '`next_cursor` of the page before, with the same filters.' })),
};

export const timeRange = {
  from: Type.Optional(Type.String({ format: 'date-time', description: 'Created at this time or later.' })),
  to: Type.Optional(Type.String({ format: 'date-time', description: 'Created before this time.' })),
};

export const IdempotencyKeyPattern = '^[\\x21-\\x7e]{1,255}$';

export const ErrorReply = Type.Object(
  {
    error: Type.Object(
      {
        code: Type.String(),
        type: Type.String(),
        message: Type.String(),
        param: nullable(Type.String()),
        details: Type.Record(Type.String(), Type.Unknown()),
        retryable: Type.Boolean(),
        request_id: nullable(Type.String()),
      },
      { additionalProperties: false },
    ),
  },
  { title: 'Error', additionalProperties: false },
);
