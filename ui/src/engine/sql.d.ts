// What of sql.js the worker uses; the package has no types of its own.

declare module "sql.js" {
  export type Value = string | number | Uint8Array | null;

  export interface Statement {
    getColumnNames(): string[];
    step(): boolean;
    get(): Value[];
    run(values: Value[]): void;
    free(): boolean;
  }

  export interface Database {
    run(sql: string): void;
    prepare(sql: string): Statement;
    iterateStatements(sql: string): Iterable<Statement>;
  }

  export default function initSqlJs(options: { wasmBinary: ArrayBuffer }): Promise<{ Database: new () => Database }>;
}
